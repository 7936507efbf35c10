//! Whether a reported success counts, by what was observed and what its queue allows. The most specific objection wins.

use super::observe::FinishKind;
use super::observe::Observed;
use crate::classify::Facts;
use crate::policy::Detectors;
use crate::reason::Reason;
use crate::words::words;

words! {
    /// The detectors by name, as in the `detector.<name>` of a verdict's rule.
    pub enum Detector {
        ContentFiltered = "content_filtered",
        MalformedGeneration = "malformed_generation",
        OutputTruncated = "output_truncated",
        StepCapAnswer = "step_cap_answer",
        PausedTurn = "paused_turn",
        EmptyOutput = "empty_output",
        RepeatCallLoop = "repeat_call_loop",
        AllToolsFailed = "all_tools_failed",
        ToolErrorAsText = "tool_error_as_text",
        SchemaInvalid = "schema_invalid",
        BudgetExceeded = "budget_exceeded",
        NoEffect = "no_effect",
    }
}

impl Detector {
    pub fn reason(self) -> Reason {
        match self {
            Self::ContentFiltered => Reason::ContentFiltered,
            Self::MalformedGeneration => Reason::MalformedOutput,
            Self::OutputTruncated => Reason::OutputTruncated,
            Self::StepCapAnswer | Self::PausedTurn => Reason::MaxIterations,
            Self::EmptyOutput => Reason::EmptyOutput,
            Self::RepeatCallLoop => Reason::HallucinationLoop,
            Self::AllToolsFailed | Self::ToolErrorAsText => Reason::ToolError,
            Self::SchemaInvalid => Reason::SchemaMismatch,
            Self::BudgetExceeded => Reason::TokenBudgetExceeded,
            Self::NoEffect => Reason::NoEffect,
        }
    }

    pub fn rule(self) -> String {
        format!("detector.{self}")
    }
}

/// Why a success does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Objection {
    pub detector: Detector,
    /// What was seen, for the attempt's record and for the model's next try.
    pub message: String,
    /// Where a limit was passed.
    pub facts: Facts,
}

impl Objection {
    pub fn reason(&self) -> Reason {
        self.detector.reason()
    }

    fn new(detector: Detector, message: impl Into<String>) -> Self {
        Self { detector, message: message.into(), facts: Facts::default() }
    }
}

/// What the store has on record beside the report.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnRecord<'a> {
    /// Effects that are done, in this attempt or before it.
    pub effects_done: u32,
    /// Steps that are done; asked for only where tools are expected.
    pub steps_done: &'a [String],
    /// Attempts before this one that were refused with the very same output.
    pub same_output_before: u32,
}

pub fn judge(observed: &Observed, detectors: &Detectors, on_record: &OnRecord<'_>) -> Option<Objection> {
    let objection = [how_it_ended, step_cap, empty, repeated, tools_failed, tool_error, schema, budget, effect]
        .into_iter()
        .find_map(|look| look(observed, detectors, on_record))?;
    Some(or_a_loop(objection, detectors, on_record))
}

/// The same refused output again is a loop.
fn or_a_loop(objection: Objection, detectors: &Detectors, on_record: &OnRecord<'_>) -> Objection {
    let times = on_record.same_output_before.saturating_add(1);
    if !detectors.repeat_call_loop || times < detectors.same_outputs {
        return objection;
    }
    let message = format!("the same output on {times} attempts, each time refused: {}", objection.message);
    Objection::new(Detector::RepeatCallLoop, message)
}

fn how_it_ended(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let (ending, word) = observed.ended.as_ref()?;
    let (switch, detector, message) = match ending {
        FinishKind::Filtered => {
            (on.content_filtered, Detector::ContentFiltered, format!("a content filter or a refusal ended it: {word}"))
        }
        FinishKind::Malformed => {
            (on.malformed_generation, Detector::MalformedGeneration, format!("the model's turn can't be used: {word}"))
        }
        FinishKind::CutOff => {
            (on.output_truncated, Detector::OutputTruncated, format!("the output was cut off: {word}"))
        }
        FinishKind::Paused => (on.paused_turn, Detector::PausedTurn, format!("the turn was paused, not ended: {word}")),
        FinishKind::AsksForTool => {
            (on.paused_turn, Detector::PausedTurn, format!("it stopped while the model still asked for a tool: {word}"))
        }
    };
    switch.then(|| Objection::new(detector, message))
}

fn step_cap(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let said = observed.capped.as_ref().filter(|_| on.step_cap_answer)?;
    Some(Objection::new(Detector::StepCapAnswer, format!("the agent's step cap stands in the answer's place: {said}")))
}

fn empty(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let missing = on.require_output && !observed.given;
    (on.empty_output && (observed.blank || missing)).then(|| {
        let message = if missing { "there is no output" } else { "the output is blank and calls no tool" };
        Objection::new(Detector::EmptyOutput, message)
    })
}

fn repeated(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    const ROUNDS: u32 = 2;
    let repeats = &observed.repeats;
    let tool = &repeats.tool;
    let message = if let Some(said) = &observed.circles {
        format!("the agent says that it repeats itself: {said}")
    } else if repeats.in_row >= on.repeats_in_row {
        format!("it ended in the same call of `{tool}` {} times in a row", repeats.in_row)
    } else if repeats.in_window >= on.repeats_in_ten {
        format!("{} of its last 10 calls are the same call of `{tool}`", repeats.in_window)
    } else if repeats.rounds >= ROUNDS {
        format!("it ended in the same two calls in turn, `{tool}` the second, {} times", repeats.rounds)
    } else {
        return None;
    };
    on.repeat_call_loop.then(|| Objection::new(Detector::RepeatCallLoop, message))
}

fn tools_failed(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let tools = &observed.tools;
    if !on.all_tools_failed || tools.done > 0 || tools.failed == 0 {
        return None;
    }
    let last = tools.last_error.as_deref().unwrap_or_default();
    let message = match tools.failed {
        1 => format!("its only tool call failed: {last}"),
        n => format!("all {n} tool calls failed, the last with: {last}"),
    };
    Some(Objection::new(Detector::AllToolsFailed, message))
}

fn tool_error(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let said = observed.tool_error.as_ref().filter(|_| on.tool_error_as_text)?;
    Some(Objection::new(Detector::ToolErrorAsText, format!("a tool's error stands in the answer's place: {said}")))
}

fn schema(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    let breach = observed.breach.as_ref().filter(|_| on.output_schema.is_some())?;
    Some(Objection::new(Detector::SchemaInvalid, format!("the output breaks the queue's schema: {breach}")))
}

fn budget(observed: &Observed, on: &Detectors, _: &OnRecord<'_>) -> Option<Objection> {
    if let Some(most) = on.max_tokens.filter(|most| observed.spent.tokens > *most) {
        let message = format!("it took {} tokens, and {most} are allowed", observed.spent.tokens);
        let facts = Facts { limit: Some(most), actual: Some(observed.spent.tokens), ..Facts::default() };
        return Some(Objection { facts, ..Objection::new(Detector::BudgetExceeded, message) });
    }
    let most = on.max_cost_usd.filter(|most| observed.spent.cost > *most)?;
    Some(Objection::new(Detector::BudgetExceeded, format!("it cost {}, and {most} is allowed", observed.spent.cost)))
}

fn effect(observed: &Observed, on: &Detectors, on_record: &OnRecord<'_>) -> Option<Objection> {
    if on.expect_effect && on_record.effects_done == 0 {
        let message = "success was claimed, and the ledger has no effect of it";
        return Some(Objection::new(Detector::NoEffect, message));
    }
    let done = |tool: &&String| observed.tools.named.contains(tool) || on_record.steps_done.contains(tool);
    let missing = on.expect_tools.iter().find(|tool| !done(tool))?;
    Some(Objection::new(Detector::NoEffect, format!("success was claimed, and `{missing}` was never called")))
}
