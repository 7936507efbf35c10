//! The names under which one model goes: dated, with its provider or region before it, with a version after it.

/// Vendors that stand before a model's name, as in `us.anthropic.claude-…`.
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
pub(super) fn plain(name: &str) -> String {
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
pub(super) fn is_of(name: &str, family: &str) -> bool {
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

    #[test]
    fn where_it_runs_is_not_part_of_the_name() {
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
    fn a_date_is_the_same_model_and_a_version_is_another() {
        assert!(is_of("gpt-4-0613", "gpt-4") && is_of("claude-opus-4-20250514", "claude-opus-4"));
        assert!(is_of("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro") && is_of("gpt-4o", "gpt-4o"));
        assert!(!is_of("claude-opus-4-9", "claude-opus-4") && !is_of("gpt-5.4", "gpt-5") && !is_of("gpt-4o", "gpt-4"));
    }
}
