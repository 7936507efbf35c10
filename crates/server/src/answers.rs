//! Large answers in memory, paid for. A caller takes a turn before one is read out of the store, and what is made of it
//! counts against a budget until the last of its bytes has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use redrive_store::{Turn, Turns};

use crate::budget::{Budget, Holder, Share};
use crate::limits::{LARGE_ANSWER_BYTES, LARGE_READS_HOLDER_MAX, LARGE_READS_MAX, LARGE_READS_WAIT_MS, Limits};
use crate::problem::{Code, Problem, Result};

const RETRY_AFTER_S: u32 = 1;

#[derive(Debug)]
pub(crate) struct Answers {
    bytes: Arc<Budget>,
    /// How large something is shows only when it has been read.
    turns: Turns<Holder>,
}

/// What a full budget does to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// A read can be asked for again.
    Refuse,
    /// The call has taken effect, so its answer has to go out; it counts all the same.
    Send,
}

/// Room for an answer that is not made yet.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) bytes: usize,
    _share: Share,
}

impl Answers {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = Budget::new(limits.answers_max_bytes, limits.answers_max_bytes / 4);
        Self { bytes, turns: Turns::new(LARGE_READS_MAX, LARGE_READS_HOLDER_MAX) }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.bytes.used_bytes()
    }

    /// For a call whose answer may be large and can't be taken back: asked before it does anything.
    pub(crate) fn demand_room(&self, holder: &Holder) -> Result<()> {
        if self.bytes.has_room(holder) { Ok(()) } else { Err(busy()) }
    }

    /// Room for an answer that may be large and can't be taken back, kept until it is written. Each of several calls at once
    /// gets half of what is left: together they never exceed the budget, and the first gets all it asks for.
    pub(crate) fn reserve(&self, holder: &Holder, most_bytes: usize) -> Result<Reserved> {
        self.demand_room(holder)?;
        let mut share = self.bytes.share(holder.clone());
        let bytes = share.grow_within_half(most_bytes);
        Ok(Reserved { bytes, _share: share })
    }

    /// Leave to read what may be large; it is kept until the answer is written.
    pub(crate) async fn turn(&self, holder: Holder) -> Result<Turn> {
        let turn = self.turns.take(&holder);
        let waited = tokio::time::timeout(Duration::from_millis(LARGE_READS_WAIT_MS), turn).await;
        waited.ok().flatten().ok_or_else(busy)
    }

    /// Counts an answer that is large. Callers without a key get what is made once for all, or little.
    pub(crate) fn count(&self, holder: Holder, if_full: IfFull, response: Response) -> Response {
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.unwrap_or_default();
        if bytes <= LARGE_ANSWER_BYTES || holder == Holder::Anonymous {
            return response;
        }
        let mut share = self.bytes.share(holder);
        match if_full {
            IfFull::Send => share.charge(bytes),
            IfFull::Refuse => {
                if share.grow_or_be_the_only(bytes).is_err() {
                    return busy().into_response();
                }
            }
        }
        let share = Arc::new(share);
        response.map(|body| Body::new(Counted { body, share }))
    }
}

fn busy() -> Problem {
    let many = "large answers of this tenant or of all are still on their way: read those first, then ask again";
    Problem::new(Code::Busy, many).retry_after_s(RETRY_AFTER_S)
}

/// A body whose bytes keep their share, wherever they wait to be sent.
struct Counted {
    body: Body,
    share: Arc<Share>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let counted = |data| Bytes::from_owner(Piece { data, _share: self.share.clone() });
        polled.map(|next| next.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Piece {
    data: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn tenant(name: &str) -> Holder {
        Holder::Tenant(name.parse().unwrap())
    }

    fn answers(max_bytes: usize) -> Answers {
        Answers::new(&Limits { answers_max_bytes: max_bytes, ..Limits::default() })
    }

    fn answer(bytes: usize) -> Response {
        Body::from(vec![b'x'; bytes]).into_response()
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_is_gone() {
        let answers = answers(8 * LARGE_ANSWER_BYTES);
        let large = LARGE_ANSWER_BYTES + 1;
        let response = answers.count(tenant("a"), IfFull::Refuse, answer(large));
        assert_eq!(response.body().size_hint().exact(), Some(large as u64));
        let mut body = response.into_body();
        let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!((bytes.len(), answers.used_bytes()), (large, large), "a connection still has it");
        drop(bytes);
        assert_eq!(answers.used_bytes(), 0);
    }

    #[test]
    fn large_answers_that_nobody_reads_are_bounded() {
        let answers = answers(8 * (LARGE_ANSWER_BYTES + 1));
        let ask = |name, if_full| answers.count(tenant(name), if_full, answer(LARGE_ANSWER_BYTES + 1));
        let unread = [ask("a", IfFull::Refuse), ask("a", IfFull::Refuse)];
        let refused = ask("a", IfFull::Refuse);
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(answers.demand_room(&tenant("a")).is_err() && answers.demand_room(&tenant("b")).is_ok());
        assert_eq!(answers.count(tenant("a"), IfFull::Refuse, answer(LARGE_ANSWER_BYTES)).status(), 200);
        assert_eq!(ask("b", IfFull::Refuse).status(), 200);
        assert_eq!(ask("a", IfFull::Send).status(), 200, "what was done is told");
        drop(unread);
        assert_eq!(ask("a", IfFull::Refuse).status(), 200);
        assert_eq!(answers.used_bytes(), 0);
    }

    #[test]
    fn one_answer_goes_out_however_large_it_is() {
        let answers = answers(4 * LARGE_ANSWER_BYTES);
        let ask = || answers.count(tenant("a"), IfFull::Refuse, answer(10 * LARGE_ANSWER_BYTES));
        let unread = ask();
        assert_eq!((unread.status().as_u16(), ask().status().as_u16()), (200, 503));
        let other = answers.count(tenant("b"), IfFull::Refuse, answer(LARGE_ANSWER_BYTES + 1));
        assert_eq!(other.status(), 200, "what is beyond one tenant's part is not taken from others");
    }

    #[test]
    fn simultaneous_calls_reserve_no_more_than_there_is() {
        let answers = answers(8 * LARGE_ANSWER_BYTES);
        let ask = || answers.reserve(&tenant("a"), LARGE_ANSWER_BYTES).unwrap();
        let held: Vec<Reserved> = std::iter::repeat_with(ask).take(30).collect();
        assert_eq!(held[0].bytes, LARGE_ANSWER_BYTES, "one alone gets what it asks for");
        assert!(held.iter().map(|reserved| reserved.bytes).sum::<usize>() <= 2 * LARGE_ANSWER_BYTES);
        assert_eq!(answers.reserve(&tenant("b"), LARGE_ANSWER_BYTES).unwrap().bytes, LARGE_ANSWER_BYTES);
        drop(held);
        assert_eq!(answers.used_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_waits_for_its_own_large_reads_alone() {
        let answers = answers(usize::MAX);
        let mut held = Vec::new();
        for _ in 0..LARGE_READS_HOLDER_MAX {
            held.push(answers.turn(tenant("a")).await.unwrap());
        }
        assert_eq!(answers.turn(tenant("a")).await.unwrap_err().code, Code::Busy);
        drop(answers.turn(tenant("b")).await.unwrap());
        held.pop();
        drop(answers.turn(tenant("a")).await.unwrap());
    }
}
