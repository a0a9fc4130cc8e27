//! The fields of an item's content, and the edits that change them.

use super::{Mode, Part};
use crate::names::{ItemId, Label, Phase};
use crate::numbers::{Revision, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
