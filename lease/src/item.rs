//! The work item: what the work is. Its content and body, the edits that change them, the activities that report on the
//! work, and the mirrors that carry its transitions to another item.
//!
//! Who holds an item is not known here: its state, lease and assignment are in `standing`, its wait line in `line`.

mod activity;
mod content;
mod edit;
mod mirror;
mod mode;
mod part;

pub use activity::{Activity, ActivityKind};
pub(crate) use content::sorted;
pub use content::{Content, LabelSets, Links};
pub use edit::{Edit, Field, FieldRevisions};
pub use mirror::{MirrorSkip, Mirrors, Transition};
pub use mode::{Mode, RunsIn};
pub use part::{Part, Parts};

use crate::names::{ItemId, Label, Phase, QueueName};
use crate::numbers::{Span, Wall};
use serde::{Deserialize, Serialize};

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
