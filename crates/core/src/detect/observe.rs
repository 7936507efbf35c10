//! What a reported success shows of itself, before anybody asks what its queue allows. A plain success costs one look at
//! its output.

use std::borrow::Cow;

use super::finish::{Ending, ending};
use super::phrases;
use super::repeats::{Repeats, repeats};
use super::schema::OutputSchema;
use super::shapes;
use super::transcript::{Answer, ToolResult, Transcript, excerpt};
use crate::hash::Fnv;
use crate::money::Spend;
use crate::wire::{StepReport, StepStatus, Usage};

/// A success as it was reported.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told<'a> {
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
    pub ended: Option<(Ending, String)>,
    /// The framework's words for its step cap.
    pub capped: Option<String>,
    /// The agent's own words for going round in circles.
    pub circles: Option<String>,
    /// A tool's error that stands where the answer should.
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

pub fn observe(told: &Told<'_>) -> Observed {
    let transcript = told.output.map(shapes::read).unwrap_or_default();
    let said = match &transcript.answer {
        Answer::Text(said) => Some(said.as_ref()),
        Answer::NotGiven | Answer::Blank | Answer::Data => None,
    };
    Observed {
        given: told.output.is_some(),
        blank: transcript.answer == Answer::Blank,
        ended: how_it_ended(told, &transcript),
        capped: transcript.capped.clone().or_else(|| quote(said, phrases::is_cap)),
        circles: quote(said, phrases::is_loop),
        tool_error: transcript.failure.clone().or_else(|| quote(said, phrases::is_tool_error)),
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
fn how_it_ended(told: &Told<'_>, transcript: &Transcript<'_>) -> Option<(Ending, String)> {
    if transcript.refused {
        let word = transcript.endings.first().map_or("refusal", Cow::as_ref);
        return Some((Ending::Filtered, excerpt(word)));
    }
    if let Answer::Text(said) = &transcript.answer
        && phrases::is_unreadable(said)
    {
        return Some((Ending::Malformed, excerpt(said)));
    }
    let words = told.finish_reason.into_iter().chain(transcript.endings.iter().map(Cow::as_ref));
    let meant = words.filter_map(|word| ending(word).map(|ending| (ending, excerpt(word))));
    meant.filter(|(ending, _)| *ending != Ending::AsksForTool || left_unfinished(told, transcript)).min_by_key(
        |(ending, _)| match ending {
            Ending::Filtered => 0,
            Ending::Malformed => 1,
            Ending::CutOff => 2,
            Ending::Paused => 3,
            Ending::AsksForTool => 4,
        },
    )
}

/// A model's call for a tool is unfinished business where an agent was at work; where one response was asked for, the
/// call, or the data taken from it, is the answer.
fn left_unfinished(told: &Told<'_>, transcript: &Transcript<'_>) -> bool {
    let worked = transcript.calls.iter().any(|call| call.result.is_some()) || !told.steps.is_empty();
    let only_words = matches!(transcript.answer, Answer::NotGiven | Answer::Blank | Answer::Text(_));
    worked || only_words && transcript.calls.is_empty()
}

fn tools(told: &Told<'_>, transcript: &Transcript<'_>) -> Tools {
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
