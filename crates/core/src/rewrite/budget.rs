//! The output that a request allows: scaled, and never past what its model gives.

use crate::json::Splices;
use crate::models::Limits;
use crate::policy::PayloadFormat;
use crate::rewrite::apply::WhyNot;
use crate::rewrite::request::Request;

/// OpenAI's responses refuse less than this.
const RESPONSES_MIN_TOKENS: u64 = 16;

/// Scales the output budget. `room` is what the input leaves of the model's window, where it is known.
pub(crate) fn scale(
    request: &Request<'_, '_>,
    factor: f64,
    limits: Option<Limits>,
    room: Option<u64>,
) -> Result<Splices, WhyNot> {
    let at = request.output.ok_or(WhyNot::NoOutputBudget)?;
    let now = request.tape.whole(at).filter(|now| *now > 0).ok_or(WhyNot::NoOutputBudget)?;
    let most = [limits.and_then(|limits| limits.max_output_tokens), room].into_iter().flatten().min();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "tokens")]
    let scaled = (now as f64 * factor.clamp(0.0, 1_000.0)).round() as u64;
    let to = scaled.min(most.unwrap_or(u64::MAX)).max(least(request));
    if to == now || (factor > 1.0 && to < now) {
        return Err(WhyNot::AtTheLimit);
    }
    let mut splices = Splices::default();
    splices.replace(request.tape.span(at), to.to_string());
    Ok(splices)
}

/// Brings a budget down to what another model gives: it would refuse the request otherwise.
pub(crate) fn cap(request: &Request<'_, '_>, limits: Option<Limits>, splices: &mut Splices) {
    let now = request.output.and_then(|at| request.tape.whole(at));
    if let (Some(at), Some(now), Some(most)) = (request.output, now, limits.and_then(|limits| limits.max_output_tokens))
        && now > most
    {
        splices.replace(request.tape.span(at), most.to_string());
    }
}

/// Below this the request is not valid: a thinking budget has to fit into it.
fn least(request: &Request<'_, '_>) -> u64 {
    let tape = request.tape;
    match request.format {
        PayloadFormat::OpenaiResponses => RESPONSES_MIN_TOKENS,
        PayloadFormat::Anthropic => {
            let thinking = request.body.and_then(|body| tape.pointer(body, "/thinking/budget_tokens"));
            thinking.and_then(|at| tape.whole(at)).map_or(1, |budget| budget + 1)
        }
        PayloadFormat::OpenaiChat | PayloadFormat::Plain => 1,
    }
}
