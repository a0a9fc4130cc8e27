//! The names of variants.

/// Gives an enumeration the list of its variants' names, and a function that returns the name of a value.
macro_rules! variant_names {
    ($type:ident::{$all:ident, $name:ident} $($variant:ident = $text:literal;)+) => {
        impl $type {
            pub const $all: [&'static str; [$($text),+].len()] = [$($text),+];

            #[must_use]
            pub fn $name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $text),+
                }
            }
        }
    };
}

pub(crate) use variant_names;
