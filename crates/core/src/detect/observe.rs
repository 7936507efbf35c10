//! What a reported success shows by itself, before its queue's settings matter. A plain success costs one pass over its
//! output.

use std::borrow::Cow;

use super::schema::OutputSchema;
use super::transcript::{FinalAnswer, ToolCall, ToolResult, Transcript, excerpt};
use super::{errors, shapes};
use crate::hash::Fnv;
use crate::money::Spend;
use crate::wire::{StepReport, StepStatus, Usage};

/// A success as it was reported.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportedSuccess<'a> {
    /// The output's JSON token.
    pub output: Option<&'a str>,
    pub finish_reason: Option<&'a str>,
    pub usage: Option<&'a Usage>,
    pub steps: &'a [StepReport],
    /// What the run's queue asks of an output.
    pub schema: Option<&'a OutputSchema>,
}

/// What was seen of a success.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// There was an output at all.
    pub given: bool,
    /// There was one, and nothing is in it.
    pub blank: bool,
    /// How generation ended, with the provider's word for it.
    pub ended: Option<(FinishKind, String)>,
    /// The framework's words for its step cap.
    pub capped: Option<String>,
    /// The agent's own words for a loop.
    pub circles: Option<String>,
    /// A tool's error in place of the answer.
    pub tool_error: Option<String>,
    pub tools: Tools,
    pub repeats: Repeats,
    /// Where the output breaks its schema.
    pub breach: Option<String>,
    pub spent: Spend,
    /// Of the output, to know the same one again.
    pub output_hash: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tools {
    /// Those that were called or came as steps, each once.
    pub named: Vec<String>,
    pub done: u32,
    pub failed: u32,
    pub last_error: Option<String>,
}

/// Tools beyond this are not told apart any more.
const NAMED_MAX: usize = 256;

pub fn observe(told: &ReportedSuccess<'_>) -> Observed {
    let transcript = told.output.map(shapes::read).unwrap_or_default();
    let said = match &transcript.answer {
        FinalAnswer::Text(said) => Some(said.as_ref()),
        FinalAnswer::NotGiven | FinalAnswer::Blank | FinalAnswer::Data => None,
    };
    Observed {
        given: told.output.is_some(),
        blank: transcript.answer == FinalAnswer::Blank,
        ended: how_it_ended(told, &transcript),
        capped: transcript.capped.clone().or_else(|| quote(said, errors::is_cap)),
        circles: quote(said, errors::is_loop),
        tool_error: transcript.failure.clone().or_else(|| quote(said, errors::is_tool_error)),
        tools: tools(told, &transcript),
        repeats: repeats(&transcript.calls),
        breach: told.schema.and_then(|schema| schema.breach(told.output, said)),
        spent: told.usage.map(Spend::of).unwrap_or_default(),
        output_hash: told.output.map(hash),
    }
}

fn quote(said: Option<&str>, is: fn(&str) -> bool) -> Option<String> {
    said.filter(|said| is(said)).map(excerpt)
}

fn hash(token: &str) -> u64 {
    let mut hash = Fnv::new();
    hash.write(token.trim().as_bytes());
    hash.finish()
}

/// The most telling of the words for the end: the worker's own, and those in the output.
fn how_it_ended(told: &ReportedSuccess<'_>, transcript: &Transcript<'_>) -> Option<(FinishKind, String)> {
    if transcript.refused {
        let word = transcript.endings.first().map_or("refusal", Cow::as_ref);
        return Some((FinishKind::Filtered, excerpt(word)));
    }
    if let FinalAnswer::Text(said) = &transcript.answer
        && errors::is_unreadable(said)
    {
        return Some((FinishKind::Malformed, excerpt(said)));
    }
    let words = told.finish_reason.into_iter().chain(transcript.endings.iter().map(Cow::as_ref));
    let meant = words.filter_map(|word| ending(word).map(|ending| (ending, excerpt(word))));
    meant.filter(|(ending, _)| *ending != FinishKind::AsksForTool || left_unfinished(told, transcript)).min_by_key(
        |(ending, _)| match ending {
            FinishKind::Filtered => 0,
            FinishKind::Malformed => 1,
            FinishKind::CutOff => 2,
            FinishKind::Paused => 3,
            FinishKind::AsksForTool => 4,
        },
    )
}

/// A model's call for a tool is unfinished business where an agent was at work; where one response was asked for, the
/// call, or the data taken from it, is the answer.
fn left_unfinished(told: &ReportedSuccess<'_>, transcript: &Transcript<'_>) -> bool {
    let worked = transcript.calls.iter().any(|call| call.result.is_some()) || !told.steps.is_empty();
    let only_words = matches!(transcript.answer, FinalAnswer::NotGiven | FinalAnswer::Blank | FinalAnswer::Text(_));
    worked || only_words && transcript.calls.is_empty()
}

fn tools(told: &ReportedSuccess<'_>, transcript: &Transcript<'_>) -> Tools {
    let mut tools = Tools::default();
    for call in &transcript.calls {
        tools.name(&call.name);
        match &call.result {
            Some(ToolResult::Good) => tools.done += 1,
            Some(ToolResult::Failed(said)) => tools.fail(said),
            None => {}
        }
    }
    for step in told.steps {
        match step.status {
            StepStatus::Committed | StepStatus::Reconciled => {
                tools.name(step.name.as_str());
                tools.done += 1;
            }
            StepStatus::Failed => tools.fail(step.name.as_str()),
            StepStatus::Started | StepStatus::Unknown => {}
        }
    }
    tools
}

impl Tools {
    fn name(&mut self, name: &str) {
        if !name.is_empty() && self.named.len() < NAMED_MAX && !self.named.iter().any(|known| known == name) {
            self.named.push(name.to_owned());
        }
    }

    fn fail(&mut self, said: &str) {
        self.failed += 1;
        self.last_error = Some(excerpt(said));
    }
}

/// What a provider's finish reason means for a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishKind {
    /// The output stops where a limit was reached.
    CutOff,
    /// A filter or a refusal replaced the answer.
    Filtered,
    /// The model's turn could not be used, or broke off.
    Malformed,
    /// The provider waits to go on.
    Paused,
    /// The model asks for a tool: fine for one call, unfinished for an agent.
    AsksForTool,
}

/// None for words that mean a normal end, and for unknown words.
pub(super) fn ending(word: &str) -> Option<FinishKind> {
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
        | "compaction" => FinishKind::CutOff,
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
        | "jailbreak" => FinishKind::Filtered,
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
        | "network_error" => FinishKind::Malformed,
        "pause_turn" => FinishKind::Paused,
        "tool_use" | "tool_calls" | "tool_call" => FinishKind::AsksForTool,
        image if image.starts_with("image_") => FinishKind::Filtered,
        _ => return None,
    })
}

/// How often the last call is repeated at the end of the work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repeats {
    pub tool: String,
    /// In a row, at the very end.
    pub in_row: u32,
    /// Among the last [`WINDOW`] calls.
    pub in_window: u32,
    /// Whole rounds of two different calls in turn, at the very end.
    pub rounds: u32,
}

pub const WINDOW: usize = 10;

pub(super) fn repeats(calls: &[ToolCall<'_>]) -> Repeats {
    let Some(last) = calls.last() else { return Repeats::default() };
    let same = |call: &&ToolCall<'_>| call.hash == last.hash;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Repeats {
        tool: super::transcript::excerpt(&last.name),
        in_row: count(calls.iter().rev().take_while(same).count()),
        in_window: count(calls.iter().rev().take(WINDOW).filter(same).count()),
        rounds: count(rounds(calls)),
    }
}

/// `A B A B` at the end is two rounds.
fn rounds(calls: &[ToolCall<'_>]) -> usize {
    let [.., a, b] = calls else { return 0 };
    if a.hash == b.hash {
        return 0;
    }
    let pairs = calls.rchunks_exact(2);
    pairs.take_while(|pair| pair[0].hash == a.hash && pair[1].hash == b.hash).count()
}

#[cfg(test)]
mod tests {
    use crate::detect::transcript::Transcript;

    use super::*;

    #[test]
    fn finish_reasons_of_each_provider_are_known() {
        for (word, meant) in [
            ("length", FinishKind::CutOff),
            ("MAX_TOKENS", FinishKind::CutOff),
            ("content-filter", FinishKind::Filtered),
            ("IMAGE_SAFETY", FinishKind::Filtered),
            ("MALFORMED_FUNCTION_CALL", FinishKind::Malformed),
            ("ERROR", FinishKind::Malformed),
            ("pause_turn", FinishKind::Paused),
            ("tool-calls", FinishKind::AsksForTool),
        ] {
            assert_eq!(ending(word), Some(meant), "{word}");
        }
        for plain in ["stop", "STOP", "end_turn", "stop_sequence", "COMPLETE", "completed", "function_call", "", "eos"]
        {
            assert_eq!(ending(plain), None, "{plain}");
        }
    }

    fn of(calls: &str) -> (u32, u32, u32) {
        let mut transcript = Transcript::default();
        for call in calls.chars() {
            transcript.call(None, Some(call.to_string().into()), None);
        }
        let repeats = repeats(&transcript.calls);
        (repeats.in_row, repeats.in_window, repeats.rounds)
    }

    #[test]
    fn only_trailing_repeats_are_counted() {
        assert_eq!(of(""), (0, 0, 0));
        assert_eq!(of("abc"), (1, 1, 1));
        assert_eq!(of("baaa"), (3, 3, 0));
        assert_eq!(of("aaab"), (1, 1, 1));
        assert_eq!(of("xabab"), (1, 2, 2));
        assert_eq!(of("abcabcaadaaa"), (3, 6, 0));
    }
}
