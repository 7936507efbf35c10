//! Where in a payload the request to the model lies, for payloads that do not show it by themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::BadSetting;
use crate::words::words;

const POINTER_MAX_BYTES: usize = 500;

words! {
    /// Whose request format it is.
    pub enum PayloadFormat {
        /// OpenAI chat completions, and all that speak it.
        OpenaiChat = "openai_chat",
        /// OpenAI responses.
        OpenaiResponses = "openai_responses",
        /// Anthropic messages.
        Anthropic = "anthropic",
        /// A list of anything: the oldest may go, the last stays.
        Plain = "plain",
    }
}

words! {
    /// What is done about a payload that will not fit, before its first attempt.
    pub enum Preflight {
        /// Nothing is looked at.
        Off = "off",
        /// The answer says so, and the run begins.
        Warn = "warn",
        /// It is compressed, or dead-lettered where nothing can be left out.
        Enforce = "enforce",
    }
}

/// JSON pointers (RFC 6901) to the parts of a payload. What is absent is looked for by structure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayloadShape {
    /// The request format; absent: told from the request itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<PayloadFormat>,
    /// The request as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub request: Option<String>,
    /// The list of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub messages: Option<String>,
    /// The system prompt, where it stands beside the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub system: Option<String>,
    /// A text that takes further instructions; absent: the system prompt takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub instructions: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub model: Option<String>,
    /// How many tokens the answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub output_tokens: Option<String>,
}

impl PayloadShape {
    /// A later layer's pointers over an earlier one's.
    pub(super) fn lay(&mut self, over: &Self) {
        self.format = over.format.or(self.format);
        for (mine, theirs) in self.pointers_mut().into_iter().zip(over.pointers()) {
            if let Some(pointer) = theirs {
                *mine = Some(pointer.clone());
            }
        }
    }

    /// Refuses what is no pointer.
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        for pointer in self.pointers().into_iter().flatten() {
            if !(pointer.is_empty() || pointer.starts_with('/')) || pointer.len() > POINTER_MAX_BYTES {
                let must_be = format!("JSON pointers: `{pointer}` does not begin with `/`, or has over 500 bytes");
                return Err(BadSetting { field: "payload", must_be });
            }
        }
        Ok(())
    }

    fn pointers(&self) -> [&Option<String>; 6] {
        [&self.request, &self.messages, &self.system, &self.instructions, &self.model, &self.output_tokens]
    }

    fn pointers_mut(&mut self) -> [&mut Option<String>; 6] {
        let Self { format: _, request, messages, system, instructions, model, output_tokens } = self;
        [request, messages, system, instructions, model, output_tokens]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_say_only_what_they_change() {
        let mut shape = PayloadShape { messages: Some("/a".into()), model: Some("/m".into()), ..Default::default() };
        let format = Some(PayloadFormat::Plain);
        shape.lay(&PayloadShape { format, messages: Some("/b".into()), ..Default::default() });
        assert_eq!((shape.messages.as_deref(), shape.model.as_deref()), (Some("/b"), Some("/m")));
        assert_eq!(shape.format, format);
    }

    #[test]
    fn what_is_no_pointer_is_named() {
        let shape = PayloadShape { system: Some("system".into()), ..Default::default() };
        assert!(shape.check().unwrap_err().to_string().contains("`system` does not begin with `/`"));
        assert!(PayloadShape { system: Some(String::new()), ..Default::default() }.check().is_ok());
    }
}
