//! Writing to an item: updates, activities, and the end of work.

use crate::answer::answer;
use crate::claim::Grant;
use crate::dates::Date;
use crate::item;
use crate::names::{self, Number};
use crate::problem::Problem;
use crate::words::{ActivityKind, ItemState, RunsIn};
use lease::Command;
use lease::command::{
    Activity as CoreActivity, AwaitInput as CoreAwaitInput, Cancel as CoreCancel, Complete as CoreComplete,
    Fail as CoreFail, HandOn as CoreHandOn, Update as CoreUpdate, Write,
};
use lease::item::{Edit, Part};
use lease::names::{ActorId, ItemId, Label, Phase};
use lease::numbers::Token;
use lease::outcome::Outcome;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Distinguishes `null`, which removes the value, from an absent field.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Changes to an item. Fields that are not named keep their values; `null` removes a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// The lease's token. Required while the item is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
    /// The revision that the caller has read; may also be sent as the header If-Match. Required while nobody holds the
    /// item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Number>,
    /// Set the item to in-progress. This claims the item, and the answer contains the grant.
    #[serde(default)]
    pub start: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<names::Label>>, max_items = 32)]
    pub labels: Option<Vec<Label>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<names::Label>>, max_items = 32)]
    pub needs: Option<Vec<Label>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<names::ItemId>)]
    pub parent: Option<Option<ItemId>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<names::ItemId>)]
    pub target: Option<Option<ItemId>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<Date>)]
    pub not_before: Option<Option<Date>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunsIn>,
    /// With `mode: local`: the owner. Default: the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub local_owner: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Phase>)]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyChange>,
}

/// Changes to the parts of a body. Parts that are not named keep their values; `null` removes a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BodyChange {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub prompt: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub instructions: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub context: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub data: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub plan: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub external_url: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub error: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub result: Option<Option<String>>,
}

impl Update {
    /// # Errors
    /// When `local_owner` is set without `mode`.
    pub fn into_command(self, id: ItemId, caller: &ActorId) -> Result<Command, Box<Problem>> {
        let mut edits = Vec::new();
        edits.extend(self.title.map(Edit::Title));
        edits.extend(self.priority.map(Edit::Priority));
        edits.extend(self.labels.map(Edit::Labels));
        edits.extend(self.needs.map(Edit::Needs));
        edits.extend(self.parent.map(Edit::Parent));
        edits.extend(self.target.map(Edit::Target));
        edits.extend(self.not_before.map(|date| Edit::NotBefore(date.map(|date| date.0))));
        match self.mode {
            Some(mode) => edits.push(Edit::Mode(item::mode(mode, self.local_owner, caller))),
            None if self.local_owner.is_some() => {
                return Err(Box::new(Problem::invalid("local_owner", "is only valid with mode: local")));
            }
            None => {}
        }
        edits.extend(self.phase.map(Edit::Phase));
        if let Some(body) = self.body {
            let parts = [
                (Part::Prompt, body.prompt),
                (Part::Instructions, body.instructions),
                (Part::Context, body.context),
                (Part::Data, body.data),
                (Part::Plan, body.plan),
                (Part::ExternalUrl, body.external_url),
                (Part::Error, body.error),
                (Part::Result, body.result),
            ];
            // An empty text removes the part.
            let edit = |(part, change): (Part, Option<Option<String>>)| {
                change.map(|text| Edit::Body(part, text.unwrap_or_default()))
            };
            edits.extend(parts.into_iter().filter_map(edit));
        }
        if edits.is_empty() && !self.start {
            return Err(Box::new(Problem::invalid("body", "changes nothing; name a field to change")));
        }
        let write = Write { item: id, token: self.token, read_at: self.read_at.map(|number| number.0) };
        Ok(Command::Update(CoreUpdate { write, edits, start: self.start }))
    }
}

macro_rules! written {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The lease's token.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = Option<names::Token>)]
            pub token: Option<Token>,
            /// The revision that the caller has read; may also be sent as the header If-Match.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub read_at: Option<Number>,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            fn write(&self, item: ItemId) -> Write {
                Write { item, token: self.token, read_at: self.read_at.map(|number| number.0) }
            }
        }
    };
}

written! {
    /// An activity, shown to observers of the work.
    Activity {
        kind: ActivityKind,
        /// For `plan_updated` and `external_url_updated`: the new text, which is also written to the body.
        #[serde(default)]
        note: String,
    }
}
written! {
    /// The holder needs input before it can continue.
    AwaitInput {
        #[schema(max_length = 1024)]
        question: String,
    }
}
written! {
    /// The holder continues.
    Resume {}
}
written! {
    /// Ends the lease and queues the item in another phase.
    HandOn {
        #[schema(value_type = names::Phase)]
        phase: Phase,
    }
}
written! {
    Complete {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    }
}
written! {
    Fail {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Do not try the item again, whatever attempts are left.
        #[serde(default, rename = "final")]
        is_final: bool,
    }
}

impl Activity {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Activity(CoreActivity { write: self.write(item), kind: self.kind.into(), note: self.note })
    }
}

impl AwaitInput {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::AwaitInput(CoreAwaitInput { write: self.write(item), question: self.question })
    }
}

impl Resume {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Resume(self.write(item))
    }
}

impl HandOn {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::HandOn(CoreHandOn { write: self.write(item), phase: self.phase })
    }
}

impl Complete {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Complete(CoreComplete { write: self.write(item), result: self.result })
    }
}

impl Fail {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Fail(CoreFail { write: self.write(item), error: self.error, is_final: self.is_final })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    #[serde(default)]
    #[schema(max_length = 1024)]
    pub reason: String,
    /// End a live lease at once instead of waiting for its holder.
    #[serde(default)]
    pub force: bool,
}

impl Cancel {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Cancel(CoreCancel { item, reason: self.reason, force: self.force })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Updated {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    pub revision: Number,
    /// The lease, if the update set the item to in-progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

answer! { Updated, with: Outcome::Updated { item, revision, grant } =>
    Self { item, revision: Number(revision), grant: grant.map(|grant| Grant::new(*grant, with)) }
}

/// The new state of the item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moved {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    pub state: ItemState,
    pub revision: Number,
}

answer! { Moved: Outcome::Moved { item, state, revision } =>
    Self { item, state: state.into(), revision: Number(revision) }
}

/// The item is cancelled, or will be as soon as its holder has stopped working on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    pub state: ItemState,
    /// When the item is cancelled at the latest, in cluster time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_by_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_by: Option<Date>,
}

answer! { Cancelled, with: Outcome::Cancelled { item, state, ends_by } =>
    Self {
        item,
        state: state.into(),
        ends_by_ms: ends_by.map(|time| time.0),
        ends_by: ends_by.map(|time| with.calendar.date(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(json: serde_json::Value) -> Result<Vec<Edit>, Box<Problem>> {
        let update: Update = serde_json::from_value(json).unwrap();
        let (id, caller) = (ItemId::new("a").unwrap(), ActorId::new("ada").unwrap());
        match update.into_command(id, &caller)? {
            Command::Update(update) => Ok(update.edits),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn null_removes_a_value_and_absent_fields_keep_theirs() {
        let changed =
            edits(serde_json::json!({ "parent": null, "not_before": null, "body": { "plan": null } })).unwrap();
        assert_eq!(changed, [Edit::Parent(None), Edit::NotBefore(None), Edit::Body(Part::Plan, String::new())]);
        assert_eq!(edits(serde_json::json!({ "priority": 3 })).unwrap(), [Edit::Priority(3)]);
        assert_eq!(edits(serde_json::json!({})).unwrap_err().field.as_deref(), Some("body"));
        let stray = edits(serde_json::json!({ "local_owner": "jo", "priority": 3 })).unwrap_err();
        assert_eq!(stray.field.as_deref(), Some("local_owner"));
    }
}
