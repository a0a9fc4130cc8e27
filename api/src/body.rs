//! The texts of an item that Tenure does not interpret.

use lease::item::Part;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body: opaque texts, at most 64 KiB in total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Body {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Trusted: only a dispatcher may set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Untrusted: show it as untrusted input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Written by the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Written by the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// Written by the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Written by the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl Body {
    /// The parts that are present.
    pub fn into_parts(self) -> Vec<(Part, String)> {
        let mut body = self;
        Part::ALL.into_iter().filter_map(|part| body.part_mut(part).take().map(|text| (part, text))).collect()
    }

    pub fn part_mut(&mut self, part: Part) -> &mut Option<String> {
        match part {
            Part::Prompt => &mut self.prompt,
            Part::Instructions => &mut self.instructions,
            Part::Context => &mut self.context,
            Part::Data => &mut self.data,
            Part::Plan => &mut self.plan,
            Part::ExternalUrl => &mut self.external_url,
            Part::Error => &mut self.error,
            Part::Result => &mut self.result,
        }
    }
}
