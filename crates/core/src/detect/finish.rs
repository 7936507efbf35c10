//! How a generation ended, by the word its provider has for it.

/// What a provider's word means for a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The output stops where a limit was reached.
    CutOff,
    /// A filter or a refusal stands in the answer's place.
    Filtered,
    /// The model's turn could not be used, or broke off.
    Malformed,
    /// The provider waits to go on.
    Paused,
    /// The model asks for a tool: fine for one call, unfinished for an agent.
    AsksForTool,
}

/// None for every word that means a plain end, and for words nobody has met.
pub(super) fn ending(word: &str) -> Option<Ending> {
    const LONGEST: usize = 64;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let word: String = word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    Some(match word.as_str() {
        "length"
        | "max_tokens"
        | "model_length"
        | "max_output_tokens"
        | "model_context_window_exceeded"
        | "compaction" => Ending::CutOff,
        "content_filter"
        | "content_filtered"
        | "refusal"
        | "guardrail_intervened"
        | "safety"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "language"
        | "sensitive"
        | "error_toxic"
        | "model_armor"
        | "jailbreak" => Ending::Filtered,
        "malformed_function_call"
        | "malformed_response"
        | "malformed_model_output"
        | "malformed_tool_use"
        | "unexpected_tool_call"
        | "too_many_tool_calls"
        | "error"
        | "abort"
        | "repetition"
        | "timeout"
        | "network_error" => Ending::Malformed,
        "pause_turn" => Ending::Paused,
        "tool_use" | "tool_calls" | "tool_call" => Ending::AsksForTool,
        image if image.starts_with("image_") => Ending::Filtered,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_providers_spelling_is_known_and_a_plain_end_is_none() {
        for (word, meant) in [
            ("length", Ending::CutOff),
            ("MAX_TOKENS", Ending::CutOff),
            ("content-filter", Ending::Filtered),
            ("IMAGE_SAFETY", Ending::Filtered),
            ("MALFORMED_FUNCTION_CALL", Ending::Malformed),
            ("ERROR", Ending::Malformed),
            ("pause_turn", Ending::Paused),
            ("tool-calls", Ending::AsksForTool),
        ] {
            assert_eq!(ending(word), Some(meant), "{word}");
        }
        for plain in ["stop", "STOP", "end_turn", "stop_sequence", "COMPLETE", "completed", "function_call", "", "eos"]
        {
            assert_eq!(ending(plain), None, "{plain}");
        }
    }
}
