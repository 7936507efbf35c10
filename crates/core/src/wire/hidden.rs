//! What a key that may read runs but not payloads gets: the run without what came from the agent's work.

use super::report::{ErrorReport, ResponseReport};
use super::runs::{AttemptView, EffectView, RunBody};
use crate::verdict::{Change, Verdict};

impl RunBody {
    /// Removes payload, headers, outputs, responses and error texts, and says so.
    pub fn hide_payload(&mut self) {
        self.payload_hidden = true;
        self.payload = None;
        self.payload_base64 = None;
        self.headers.clear();
        self.output = None;
        self.attempts.iter_mut().for_each(hide_attempt);
        self.steps.iter_mut().for_each(|step| step.output = None);
        self.verdict.iter_mut().for_each(hide_verdict);
        if let Some(review) = &mut self.review {
            review.proposed = None;
        }
    }
}

impl EffectView {
    /// Removes the output, and says so.
    pub fn hide_payload(&mut self) {
        self.payload_hidden = true;
        self.output = None;
    }
}

fn hide_attempt(attempt: &mut AttemptView) {
    attempt.error.iter_mut().chain(&mut attempt.late).for_each(hide_error);
    attempt.response.iter_mut().for_each(hide_response);
    attempt.verdict.iter_mut().for_each(hide_verdict);
    attempt.partial_output = None;
    attempt.output = None;
}

/// A change may quote the error that it answers.
fn hide_verdict(verdict: &mut Verdict) {
    for change in &mut verdict.changes {
        match change {
            Change::AddInstruction { text } | Change::AddConstraint { text } => text.clear(),
            Change::AddLastError { text } => *text = None,
            Change::CompressContext { .. } | Change::ScaleOutputBudget { .. } | Change::SetModel { .. } => {}
        }
    }
}

/// The type, the status and the reason stay: the pattern's template shows the text with its variable parts masked.
fn hide_error(error: &mut ErrorReport) {
    error.message = "".into();
    error.detail = None;
    error.headers.clear();
}

fn hide_response(response: &mut ResponseReport) {
    response.headers.clear();
    response.body = None;
}
