//! The limit on stored step outputs of a run. A lease carries all of them.

use std::borrow::Cow;

use redrive_core::text::Label;
use redrive_core::wire::PayloadOmitted;
use sha2::{Digest as _, Sha256};

use crate::codec::{HEAD_BYTES, decode, decoded_len};
use crate::error::Result;
use crate::ledger::steps::StepRow;
use crate::model::NewStep;
use crate::runs::run_row::RunRow;

/// Of all steps of one run together. Beyond it only size and hash of an output are stored.
pub const STEP_OUTPUTS_MAX_BYTES: usize = 8 << 20;

/// Counts the step in place of `own`, and omits its output if the budget is used up.
pub fn fit<'s>(row: &mut RunRow, own: Option<&StepRow>, step: &'s NewStep) -> Result<Cow<'s, NewStep>> {
    match count(row, own, step.output.as_deref())? {
        None => Ok(Cow::Borrowed(step)),
        Some(omitted) => Ok(Cow::Owned(NewStep { output: None, output_omitted: Some(omitted), ..step.clone() })),
    }
}

/// Counts an output in place of that of `own`. Returns its size and hash if the budget is used up.
pub fn count(row: &mut RunRow, own: Option<&StepRow>, output: Option<&[u8]>) -> Result<Option<PayloadOmitted>> {
    let before = own.and_then(|own| own.output.as_deref()).map_or(0, bytes);
    let others = row.step_bytes.saturating_sub(before);
    row.step_bytes = others;
    let Some(output) = output else { return Ok(None) };
    let all = others.saturating_add(bytes(output));
    if all <= STEP_OUTPUTS_MAX_BYTES {
        row.step_bytes = all;
        return Ok(None);
    }
    let decoded = decode(output)?;
    let hash = Sha256::digest(&decoded);
    let sha256: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(PayloadOmitted { bytes: decoded.len() as u64, sha256: Label::from(sha256.as_str()) }))
}

fn bytes(stored: &[u8]) -> usize {
    decoded_len(stored.len(), &stored[..stored.len().min(HEAD_BYTES)])
}
