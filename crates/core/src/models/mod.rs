//! Model limits: context window, largest input and largest output. The catalogue is a data file of public figures; a
//! deployment's own entries take precedence. An unknown model has no limits, and nothing is refused because of it.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DATA: &str = include_str!("catalogue.json");

/// Token limits of one request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimits {
    /// Input and output together.
    pub context_tokens: u64,
    /// The most that may go in, whatever the output.
    pub max_input_tokens: u64,
    /// The most that may come out, where it is known.
    pub max_output_tokens: Option<u64>,
}

impl ModelLimits {
    /// Room for input when `output_tokens` are requested.
    pub fn room_for_input(&self, output_tokens: u64) -> u64 {
        self.max_input_tokens.min(self.context_tokens.saturating_sub(output_tokens))
    }
}

/// A model as the data file, or `[[model]]` of redrive.toml, describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// The model's name; dated, prefixed and suffixed names of it are meant too.
    pub name: String,
    /// Its window: input and output together.
    pub context_tokens: u64,
    /// The most input it takes; absent: the whole window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// The most output it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model `{name}`: `{field}` must be {must_be}")]
pub struct BadModel {
    pub name: String,
    pub field: &'static str,
    pub must_be: &'static str,
}

impl ModelEntry {
    pub fn limits(&self) -> ModelLimits {
        ModelLimits {
            context_tokens: self.context_tokens,
            max_input_tokens: self.max_input_tokens.unwrap_or(self.context_tokens),
            max_output_tokens: self.max_output_tokens,
        }
    }

    /// Refuses figures that no model has, naming the first.
    pub fn check(&self) -> Result<(), BadModel> {
        let bad = |field, must_be| Err(BadModel { name: self.name.clone(), field, must_be });
        let within = |tokens: Option<u64>| tokens.is_none_or(|tokens| (1..=self.context_tokens).contains(&tokens));
        if self.name.trim().is_empty() || self.name.len() > 200 {
            return bad("name", "1 to 200 bytes");
        }
        if !(1..=1_000_000_000).contains(&self.context_tokens) {
            return bad("context_tokens", "from 1 to 1000000000");
        }
        if !within(self.max_input_tokens) {
            return bad("max_input_tokens", "from 1 to `context_tokens`");
        }
        if !within(self.max_output_tokens) {
            return bad("max_output_tokens", "from 1 to `context_tokens`");
        }
        Ok(())
    }
}

/// All known models: the deployment's own first, then the catalogue. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Models {
    own: Arc<[ModelEntry]>,
}

impl Models {
    /// The catalogue alone.
    pub fn builtin() -> Self {
        Self::default()
    }

    /// The catalogue with a deployment's own entries over it.
    pub fn with(own: Vec<ModelEntry>) -> Result<Self, BadModel> {
        own.iter().try_for_each(ModelEntry::check)?;
        Ok(Self { own: own.into() })
    }

    /// The limits of a model; none if it is unknown.
    pub fn limits(&self, name: &str) -> Option<ModelLimits> {
        let plain = plain(name);
        if plain.is_empty() {
            return None;
        }
        let exact = self.own.iter().find(|entry| entry.name.eq_ignore_ascii_case(name.trim()));
        exact.or_else(|| nearest(&self.own, &plain)).or_else(|| nearest(builtin(), &plain)).map(ModelEntry::limits)
    }

    /// Every entry that would take `input_tokens` beside `output_tokens`, the smallest window first.
    pub fn fitting(&self, input_tokens: u64, output_tokens: u64) -> Vec<&ModelEntry> {
        let hidden = |entry: &&ModelEntry| !self.own.iter().any(|own| plain(&own.name) == entry.name);
        let all = self.own.iter().chain(builtin().iter().filter(hidden));
        let mut fitting: Vec<_> = all
            .filter(|entry| {
                let limits = entry.limits();
                limits.room_for_input(output_tokens) >= input_tokens
                    && limits.max_output_tokens.is_none_or(|most| most >= output_tokens)
            })
            .collect();
        fitting.sort_by_key(|entry| entry.context_tokens);
        fitting
    }
}

/// The longest family that `name` belongs to.
fn nearest<'a>(entries: &'a [ModelEntry], name: &str) -> Option<&'a ModelEntry> {
    entries.iter().filter(|entry| is_of(name, &plain(&entry.name))).max_by_key(|entry| entry.name.len())
}

/// Parsed on first use.
fn builtin() -> &'static [ModelEntry] {
    static READ: OnceLock<Vec<ModelEntry>> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(DATA).unwrap_or_default())
}

/// Vendor prefixes of model names, as in `us.anthropic.claude-…`.
const VENDORS: &[&str] = &[
    "anthropic",
    "amazon",
    "ai21",
    "cohere",
    "deepseek",
    "google",
    "meta",
    "mistral",
    "moonshot",
    "openai",
    "qwen",
    "xai",
];

/// The name without what says where it runs: lower case, no path, no vendor, no `@date`, no `:variant`.
fn plain(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.split(['@', ':']).next().unwrap_or_default();
    let mut rest = name;
    while let Some((first, after)) = rest.split_once('.') {
        // `us.anthropic.claude-…` goes down to the vendor; the dot of `gpt-4.1` stays.
        let region = first.len() <= 6 && VENDORS.iter().any(|vendor| after.starts_with(&format!("{vendor}.")));
        if !region && !VENDORS.contains(&first) {
            break;
        }
        rest = after;
    }
    // Some write Claude's versions with a dot.
    if rest.starts_with("claude") { rest.replace('.', "-") } else { rest.to_owned() }
}

/// The first word of a name, by which makers call their models.
pub fn maker(name: &str) -> String {
    plain(name).split('-').next().unwrap_or_default().to_owned()
}

/// Whether `name` is `family` itself or a dated or suffixed one of it. Another version of it is not.
fn is_of(name: &str, family: &str) -> bool {
    match name.strip_prefix(family) {
        Some("") => true,
        Some(rest) => rest.starts_with('-') && !is_version(&rest[1..]),
        None => false,
    }
}

/// `-5` after `claude-opus-4` names another model; `-0613` and `-20250514` are dates of the same one.
fn is_version(rest: &str) -> bool {
    let part = rest.split('-').next().unwrap_or_default();
    let digits = part.bytes().take_while(u8::is_ascii_digit).count();
    (1..=2).contains(&digits) && (digits == part.len() || part.as_bytes().get(digits) == Some(&b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(name: &str) -> Option<(u64, u64, Option<u64>)> {
        Models::builtin().limits(name).map(|l| (l.context_tokens, l.max_input_tokens, l.max_output_tokens))
    }

    #[test]
    fn catalogue_entries_are_valid_and_unique() {
        let read: Vec<ModelEntry> = serde_json::from_str(DATA).unwrap();
        for (n, entry) in read.iter().enumerate() {
            entry.check().unwrap();
            assert_eq!(plain(&entry.name), entry.name, "written as it is looked up");
            assert!(!read[..n].iter().any(|other| other.name == entry.name), "{} twice", entry.name);
        }
        assert!(read.len() > 50);
    }

    #[test]
    fn model_names_resolve_to_their_family() {
        assert_eq!(limits("gpt-5"), Some((400_000, 272_000, Some(128_000))));
        assert_eq!(limits("openai/gpt-5-2025-08-07"), limits("gpt-5"));
        assert_eq!(limits("gpt-5.4-mini"), Some((400_000, 272_000, Some(128_000))));
        assert_eq!(limits("gpt-5.4"), Some((1_050_000, 922_000, Some(128_000))));
        assert_eq!(limits("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), Some((200_000, 200_000, Some(64_000))));
        assert_eq!(limits("claude-opus-4-1-20250805"), Some((200_000, 200_000, Some(32_000))));
        assert_eq!(limits("models/gemini-2.5-flash-lite"), Some((1_048_576, 1_048_576, Some(65_536))));
        assert_eq!(limits("gpt-4-32k-0613"), Some((32_768, 32_768, Some(32_768))));
    }

    #[test]
    fn unknown_models_have_no_limits() {
        for unknown in ["", "house-model", "gpt-6", "claude-opus-4-9", "gpt", "ollama/llama3"] {
            assert_eq!(limits(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn own_entries_override_the_catalogue() {
        let entry = |name: &str, context_tokens| ModelEntry {
            name: name.into(),
            context_tokens,
            max_input_tokens: None,
            max_output_tokens: Some(1_000),
        };
        let models = Models::with(vec![entry("ollama/llama3", 8_192), entry("gpt-5", 50_000)]).unwrap();
        assert_eq!(models.limits("ollama/llama3").unwrap().context_tokens, 8_192);
        assert_eq!(models.limits("openai/gpt-5-2025-08-07").unwrap().context_tokens, 50_000);
        assert_eq!(models.limits("gpt-4o").unwrap().context_tokens, 128_000);
        assert!(models.fitting(60_000, 0).iter().all(|fits| fits.name != "gpt-5"));
        let bad = ModelEntry { max_output_tokens: Some(9_000), ..entry("small", 8_192) };
        assert_eq!(
            Models::with(vec![bad]).unwrap_err().to_string(),
            "model `small`: `max_output_tokens` must be from 1 to `context_tokens`"
        );
    }

    #[test]
    fn fitting_models_come_smallest_first() {
        let models = Models::builtin();
        let fitting = models.fitting(300_000, 4_000);
        assert!(fitting.windows(2).all(|two| two[0].context_tokens <= two[1].context_tokens));
        assert!(fitting.iter().all(|entry| entry.name != "gpt-5") && fitting.iter().any(|e| e.name == "gpt-4.1"));
    }

    #[test]
    fn provider_and_region_are_not_part_of_the_name() {
        for (given, is) in [
            ("openai/gpt-5", "gpt-5"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929-v1"),
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", "claude-3-5-sonnet-20240620-v1"),
            ("models/gemini-2.5-pro", "gemini-2.5-pro"),
            ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
            ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet"),
            ("deepseek/deepseek-chat:free", "deepseek-chat"),
            (" GPT-4.1 ", "gpt-4.1"),
        ] {
            assert_eq!(plain(given), is, "{given}");
        }
    }

    #[test]
    fn dated_names_are_the_same_model_versions_are_not() {
        assert!(is_of("gpt-4-0613", "gpt-4") && is_of("claude-opus-4-20250514", "claude-opus-4"));
        assert!(is_of("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro") && is_of("gpt-4o", "gpt-4o"));
        assert!(!is_of("claude-opus-4-9", "claude-opus-4") && !is_of("gpt-5.4", "gpt-5") && !is_of("gpt-4o", "gpt-4"));
    }
}
