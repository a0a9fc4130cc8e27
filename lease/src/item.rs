//! The item: its content, which the dispatcher sets, and its body. Its state and leases are in `standing`.

use crate::bounds::BODY_BYTES;
use crate::caller::Caller;
use crate::names::{ActorId, ItemId, Label, Phase, QueueName};
use crate::numbers::{Revision, Span, Time, Wall};
use serde::de::Error;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The request of a dispatcher to create an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewItem {
    pub id: ItemId,
    pub queue: QueueName,
    pub title: String,
    pub priority: u8,
    pub labels: Vec<Label>,
    pub needs: Vec<Label>,
    pub parent: Option<ItemId>,
    pub target: Option<ItemId>,
    pub depends_on: Vec<ItemId>,
    pub not_before: Option<Wall>,
    pub delay: Option<Span>,
    pub mode: Mode,
    pub phase: Option<Phase>,
    pub body: Vec<(Part, String)>,
}

impl NewItem {
    #[must_use]
    pub fn new(id: ItemId, queue: QueueName) -> Self {
        Self {
            id,
            queue,
            title: String::new(),
            priority: crate::bounds::PRIORITY_DEFAULT,
            labels: Vec::new(),
            needs: Vec::new(),
            parent: None,
            target: None,
            depends_on: Vec::new(),
            not_before: None,
            delay: None,
            mode: Mode::Any,
            phase: None,
            body: Vec::new(),
        }
    }
}

/// The current content of an item. Shared with the item snapshots in grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub title: Box<str>,
    pub priority: u8,
    pub label_sets: Arc<LabelSets>,
    pub mode: Mode,
    pub phase: Option<Phase>,
    pub links: Option<Box<Links>>,
    /// The size of each part of the body. The parts themselves are separate records and not held in memory.
    pub parts: Parts,
    /// Shown only as far as disclosure allows.
    pub(crate) created_by: ActorId,
    pub created_at: Time,
    pub created_wall: Wall,
    /// A hash of the item as it was created. Distinguishes a repeated creation from another item with the same id.
    pub fingerprint: u64,
}

/// The labels on an item and the capabilities that it needs. Items with equal sets share one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LabelSets {
    pub labels: Arc<[Label]>,
    pub needs: Arc<[Label]>,
}

/// Links and dates, which most items do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    pub parent: Option<ItemId>,
    pub target: Option<ItemId>,
    pub depends_on: Box<[ItemId]>,
    pub not_before: Option<Wall>,
}

impl Content {
    #[must_use]
    pub fn parent(&self) -> Option<&ItemId> {
        self.links.as_ref()?.parent.as_ref()
    }

    #[must_use]
    pub fn target(&self) -> Option<&ItemId> {
        self.links.as_ref()?.target.as_ref()
    }

    #[must_use]
    pub fn depends_on(&self) -> &[ItemId] {
        self.links.as_ref().map_or(&[], |links| &links.depends_on)
    }

    #[must_use]
    pub fn not_before(&self) -> Option<Wall> {
        self.links.as_ref()?.not_before
    }

    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| u64::from(bytes)).sum()
    }

    /// Records the size of a part. An empty part does not exist.
    pub(crate) fn set_part(&mut self, part: Part, bytes: usize) {
        self.parts.set(part, bytes);
    }
}

/// Which parts a body has and how long each is. Takes a few bytes in the item, where a list would need an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// One bit for each existing part.
    there: u8,
    /// The length of each part minus one, because no part is empty and the longest has 64 KiB.
    last: [u16; Part::ALL.len()],
}

impl Parts {
    pub fn iter(&self) -> impl Iterator<Item = (Part, u32)> {
        let is_there = |part: &Part| self.there & (1 << *part as u8) != 0;
        Part::ALL.into_iter().filter(is_there).map(|part| (part, u32::from(self.last[part as usize]) + 1))
    }

    /// Sets the size of a part. An empty part does not exist.
    fn set(&mut self, part: Part, bytes: usize) {
        let last = bytes.checked_sub(1);
        self.there &= !(1 << part as u8);
        self.there |= u8::from(last.is_some()) << part as u8;
        self.last[part as usize] = last.map_or(0, |last| u16::try_from(last).expect("bodies are bounded"));
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(Some(self.iter().count()))?;
        self.iter().try_for_each(|part| parts.serialize_element(&part))?;
        parts.end()
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut parts = Self::default();
        for (part, bytes) in Vec::<(Part, u32)>::deserialize(deserializer)? {
            if bytes as usize > BODY_BYTES {
                return Err(D::Error::custom("a part longer than a body"));
            }
            parts.set(part, bytes as usize);
        }
        Ok(parts)
    }
}

const _: () = assert!(BODY_BYTES == 1 << u16::BITS);

/// Where an item may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    Any,
    Cloud,
    /// Only on the machines of one person, who must be the creator.
    Local {
        owner: ActorId,
    },
}

impl Mode {
    #[must_use]
    pub fn owner(&self) -> Option<&ActorId> {
        match self {
            Self::Any | Self::Cloud => None,
            Self::Local { owner } => Some(owner),
        }
    }

    /// Whether the caller may see an item of this mode. A local item is visible only to callers that work for its
    /// owner.
    #[must_use]
    pub fn is_open_to(&self, caller: &Caller) -> bool {
        self.owner().is_none_or(|owner| caller.works_for(owner))
    }
}

/// The mode in which a worker runs, or by which a caller filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsIn {
    Any,
    Cloud,
    Local,
}

impl RunsIn {
    #[must_use]
    pub fn takes(self, mode: &Mode) -> bool {
        match (self, mode) {
            (Self::Any, _) | (_, Mode::Any) | (Self::Cloud, Mode::Cloud) | (Self::Local, Mode::Local { .. }) => true,
            (Self::Cloud, Mode::Local { .. }) | (Self::Local, Mode::Cloud) => false,
        }
    }
}

/// A part of an item's body. The rules do not read it; they only check which callers may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    Prompt,
    /// Trusted: only a dispatcher may set it.
    Instructions,
    /// Untrusted: shown as untrusted input.
    Context,
    Data,
    Plan,
    ExternalUrl,
    Error,
    Result,
}

impl Part {
    pub const ALL: [Self; 8] = [
        Self::Prompt,
        Self::Instructions,
        Self::Context,
        Self::Data,
        Self::Plan,
        Self::ExternalUrl,
        Self::Error,
        Self::Result,
    ];

    /// Whether the holder may write this part. Only a dispatcher may write the others.
    #[must_use]
    pub fn is_holders(self) -> bool {
        matches!(self, Self::Plan | Self::ExternalUrl | Self::Error | Self::Result)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Instructions => "instructions",
            Self::Context => "context",
            Self::Data => "data",
            Self::Plan => "plan",
            Self::ExternalUrl => "external_url",
            Self::Error => "error",
            Self::Result => "result",
        }
    }
}

/// A field of the content, as named in `stale_write` and in the event `updated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Field {
    Title,
    Priority,
    Labels,
    Needs,
    Parent,
    Target,
    NotBefore,
    Mode,
    Phase,
    Body(Part),
}

impl Field {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Priority => "priority",
            Self::Labels => "labels",
            Self::Needs => "needs",
            Self::Parent => "parent",
            Self::Target => "target",
            Self::NotBefore => "not_before",
            Self::Mode => "mode",
            Self::Phase => "phase",
            Self::Body(part) => part.name(),
        }
    }

    /// Whether a holder without the role `dispatcher` may write this field.
    #[must_use]
    pub fn is_holders(self) -> bool {
        matches!(self, Self::Body(part) if part.is_holders())
    }
}

/// The new value of one field. `None` removes the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    Title(String),
    Priority(u8),
    Labels(Vec<Label>),
    Needs(Vec<Label>),
    Parent(Option<ItemId>),
    Target(Option<ItemId>),
    NotBefore(Option<Wall>),
    Mode(Mode),
    Phase(Phase),
    Body(Part, String),
}

impl Edit {
    #[must_use]
    pub fn field(&self) -> Field {
        match self {
            Self::Title(_) => Field::Title,
            Self::Priority(_) => Field::Priority,
            Self::Labels(_) => Field::Labels,
            Self::Needs(_) => Field::Needs,
            Self::Parent(_) => Field::Parent,
            Self::Target(_) => Field::Target,
            Self::NotBefore(_) => Field::NotBefore,
            Self::Mode(_) => Field::Mode,
            Self::Phase(_) => Field::Phase,
            Self::Body(part, _) => Field::Body(*part),
        }
    }
}

/// The revision of the last change of each field that has changed since creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRevisions(pub BTreeMap<Field, Revision>);

/// The kind of an activity, with which observers follow the work on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ActivityKind {
    Progress,
    PlanUpdated,
    ExternalUrlUpdated,
    AwaitingInput,
    Completed,
    Failed,
    PolicyDecision,
}

/// One of the last activities of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub kind: ActivityKind,
    pub by: ActorId,
    pub at: Time,
    pub wall: Wall,
    pub note: String,
}

/// Sorts labels, so that equal sets compare as equal.
pub(crate) fn sorted(labels: &[Label]) -> Arc<[Label]> {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels.dedup();
    labels.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode};

    #[test]
    fn a_worker_takes_items_of_its_mode() {
        let local = Mode::Local { owner: ActorId::new("jo").unwrap() };
        let modes = [&Mode::Any, &Mode::Cloud, &local];
        assert_eq!(modes.map(|mode| RunsIn::Any.takes(mode)), [true, true, true]);
        assert_eq!(modes.map(|mode| RunsIn::Cloud.takes(mode)), [true, true, false]);
        assert_eq!(modes.map(|mode| RunsIn::Local.takes(mode)), [true, false, true]);
    }

    #[test]
    fn names_of_fields_and_parts_are_unique() {
        let parts = Part::ALL.map(Field::Body);
        let fields = [
            Field::Title,
            Field::Priority,
            Field::Labels,
            Field::Needs,
            Field::Parent,
            Field::Target,
            Field::NotBefore,
            Field::Mode,
            Field::Phase,
        ];
        let names: Vec<&str> = fields.iter().chain(&parts).map(|field| field.name()).collect();
        assert_eq!(
            names.join(" "),
            "title priority labels needs parent target not_before mode phase \
             prompt instructions context data plan external_url error result"
        );
        let holders: Vec<&str> = parts.iter().filter(|field| field.is_holders()).map(|field| field.name()).collect();
        assert_eq!(holders, ["plan", "external_url", "error", "result"]);
        assert!(!fields.iter().any(|field| field.is_holders()));
    }

    #[test]
    fn parts_behave_like_a_list_of_parts() {
        let mut parts = Parts::default();
        let listed = |parts: &Parts| parts.iter().collect::<Vec<_>>();
        assert_eq!(listed(&parts), []);
        for (part, bytes) in [(Part::Result, 1), (Part::Prompt, BODY_BYTES), (Part::Plan, 7), (Part::Data, 300)] {
            parts.set(part, bytes);
        }
        parts.set(Part::Data, 0);
        parts.set(Part::Plan, 8);
        let list = vec![(Part::Prompt, 65_536), (Part::Plan, 8), (Part::Result, 1_u32)];
        assert_eq!(listed(&parts), list);
        assert_eq!(encode(&parts), encode(&list));
        assert_eq!(decode(&encode(&list)), Ok(parts));
        assert!(decode::<Parts>(&encode(&vec![(Part::Prompt, 65_537_u32)])).is_err());
        parts.set(Part::Prompt, 0);
        assert_eq!(listed(&parts), list[1..]);
    }
}
