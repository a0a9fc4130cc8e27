//! Parsers for command-line values.

use super::failure::Failure;
use super::out::word;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use client::Token;
use client::names::{ActorId, ItemId, Label, Phase, QueueName, SessionId, SpaceName};
use serde::Serialize;
use std::io::Read as _;

macro_rules! names {
    ($($name:ident: $type:ty;)+) => {
        $(pub(crate) fn $name(text: &str) -> Result<$type, String> {
            <$type>::new(text).map_err(|bad| bad.to_string())
        })+
    };
}

names! {
    item: ItemId;
    queue: QueueName;
    actor: ActorId;
    session: SessionId;
    space: SpaceName;
    label: Label;
    phase: Phase;
}

pub(crate) fn token(text: &str) -> Result<Token, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(Token(number)),
        _ => Err("a fencing token is a positive number, as returned by the claim".into()),
    }
}

/// Parses the JSON name of one of these values.
pub(crate) fn words<T>(all: &'static [T]) -> impl TypedValueParser<Value = T>
where
    T: Serialize + Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|value| PossibleValue::new(word(*value)))).try_map(move |text| {
        all.iter().copied().find(|value| word(*value) == text).ok_or("is not one of the possible values")
    })
}

/// Returns the text itself, or the content of a file for `@file`, or standard input for `@-`.
pub(crate) fn text(said: String) -> Result<String, Failure> {
    let Some(path) = said.strip_prefix('@') else { return Ok(said) };
    if path == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::other(format!("standard input: {error}")))?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|error| Failure::other(format!("{path}: {error}")))
}

pub(crate) fn text_if(said: Option<String>) -> Result<Option<String>, Failure> {
    said.map(text).transpose()
}
