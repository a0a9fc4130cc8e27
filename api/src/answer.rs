//! From an outcome of the rules to the answer that its caller gets.

use crate::body::Body;
use crate::dates::Calendar;
use crate::problem::Holder;
use lease::disclose::ContentView;
use lease::names::ItemId;
use lease::outcome::{ItemSnapshot, Outcome};
use std::fmt;

/// The content of an item that its holder may see, and its body.
pub type Shown = (ContentView, Option<Body>);

/// What an answer needs besides the outcome.
pub struct Context<'a> {
    pub calendar: Calendar,
    /// The id of the request.
    pub request_id: &'a str,
    /// Shows an item to its holder. None: the node cannot show it now.
    pub show: &'a mut dyn FnMut(&ItemSnapshot) -> Option<Shown>,
    /// The holder of an item, as far as the caller may see it.
    pub holder: &'a mut dyn FnMut(&ItemId) -> Option<Holder>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context of {}", self.request_id)
    }
}

/// The answer to a command.
pub trait Answer: Sized {
    /// Converts an outcome to its answer.
    ///
    /// # Errors
    /// The outcome, if it belongs to another command.
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome>;
}

/// Implements [`Answer`] for a type that has one outcome.
macro_rules! answer {
    ($name:ident: $outcome:pat => $answer:expr) => {
        answer! { $name, _with: $outcome => $answer }
    };
    ($name:ident, $with:ident: $outcome:pat => $answer:expr) => {
        impl crate::answer::Answer for $name {
            fn new(
                outcome: lease::outcome::Outcome,
                $with: &mut crate::answer::Context<'_>,
            ) -> Result<Self, lease::outcome::Outcome> {
                match outcome {
                    $outcome => Ok($answer),
                    other => Err(other),
                }
            }
        }
    };
}
pub(crate) use answer;
