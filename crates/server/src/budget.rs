//! Memory that callers hold: request bodies, waiting calls, and large answers until their last byte is sent. There is a
//! bound for all callers together and one for each, so that nobody can take everything.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use redrive_core::ids::Tenant;
use redrive_store::{Turn, Turns};

use crate::limits::{LARGE_ANSWER_BYTES, LARGE_READS_HOLDER_MAX, LARGE_READS_MAX, LARGE_READS_WAIT_MS, Limits};
use crate::problem::{Code, Problem, Result};

/// Who holds memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A caller without a key: all of them are one.
    Anonymous,
    Tenant(Tenant),
    /// A key that spans tenants.
    Key(String),
}

/// There is no room left, for this holder or at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
pub(crate) struct Budget {
    total_bytes: usize,
    holder_bytes: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_holder: HashMap<Holder, usize>,
}

impl Used {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    /// What a holder has beyond its own bound is not counted as room of all: it would be taken from the others.
    fn set(&mut self, holder: &Holder, bytes: usize, holder_bytes: usize) {
        let before = self.of(holder);
        self.total = self.total.saturating_sub(before.min(holder_bytes)).saturating_add(bytes.min(holder_bytes));
        match self.by_holder.get_mut(holder) {
            Some(_) if bytes == 0 => {
                self.by_holder.remove(holder);
            }
            Some(held) => *held = bytes,
            None => {
                self.by_holder.insert(holder.clone(), bytes);
            }
        }
    }
}

impl Budget {
    pub(crate) fn new(total_bytes: usize, holder_bytes: usize) -> Arc<Self> {
        Arc::new(Self { total_bytes, holder_bytes, used: Mutex::default() })
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>, holder: Holder) -> Share {
        Share { budget: self.clone(), holder, bytes: 0 }
    }

    /// What is held, of each holder at most its bound.
    pub(crate) fn used_bytes(&self) -> usize {
        self.lock().total
    }

    /// Whether a holder may take anything more at all.
    pub(crate) fn has_room(&self, holder: &Holder) -> bool {
        let used = self.lock();
        used.total < self.total_bytes && used.of(holder) < self.holder_bytes
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more, or none of them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        self.grow_if(bytes, |budget, total, own| {
            total.saturating_add(bytes) <= budget.total_bytes && own.saturating_add(bytes) <= budget.holder_bytes
        })
    }

    /// The same; a holder of nothing gets what it asks for while there is any room, so that nothing is too large for ever.
    pub(crate) fn grow_or_be_the_only(&mut self, bytes: usize) -> Result<(), Full> {
        self.grow_if(bytes, |budget, total, own| {
            let fits = own == 0 || own.saturating_add(bytes) <= budget.holder_bytes;
            fits && total.saturating_add(bytes.min(budget.holder_bytes)) <= budget.total_bytes
        })
    }

    /// Takes up to so many, and no more than half of the room that is left for this holder; says how many.
    pub(crate) fn grow_within_half(&mut self, most_bytes: usize) -> usize {
        let mut used = self.budget.lock();
        let own = used.of(&self.holder);
        let left = self.budget.holder_bytes.saturating_sub(own).min(self.budget.total_bytes.saturating_sub(used.total));
        let bytes = most_bytes.min(left / 2);
        used.set(&self.holder, own.saturating_add(bytes), self.budget.holder_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        bytes
    }

    /// Takes them in any case.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let taken = self.grow_if(bytes, |_, _, _| true);
        debug_assert!(taken.is_ok(), "nothing was asked");
    }

    fn grow_if(&mut self, bytes: usize, may: impl FnOnce(&Budget, usize, usize) -> bool) -> Result<(), Full> {
        let mut used = self.budget.lock();
        if !may(&self.budget, used.total, used.of(&self.holder)) {
            return Err(Full);
        }
        let own = used.of(&self.holder).saturating_add(bytes);
        used.set(&self.holder, own, self.budget.holder_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        let own = used.of(&self.holder).saturating_sub(self.bytes);
        used.set(&self.holder, own, self.budget.holder_bytes);
    }
}

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

    #[test]
    fn one_holder_cannot_take_what_others_need() {
        let budget = Budget::new(100, 60);
        let mut greedy = budget.share(tenant("a"));
        assert_eq!(greedy.grow(60), Ok(()));
        assert_eq!(greedy.grow(1), Err(Full));
        assert_eq!(budget.share(tenant("a")).grow(1), Err(Full));
        let mut other = budget.share(tenant("b"));
        assert_eq!((other.grow(40), other.grow(1)), (Ok(()), Err(Full)));
    }

    #[test]
    fn dropped_shares_return_their_bytes() {
        let budget = Budget::new(100, 100);
        let mut share = budget.share(Holder::Anonymous);
        share.grow(30).unwrap();
        share.grow(30).unwrap();
        assert_eq!(budget.used_bytes(), 60);
        drop(share);
        assert_eq!((budget.used_bytes(), budget.lock().by_holder.len()), (0, 0));
    }

    fn answers_of(max_bytes: usize) -> Answers {
        Answers::new(&Limits { answers_max_bytes: max_bytes, ..Limits::default() })
    }

    fn answer(bytes: usize) -> Response {
        Body::from(vec![b'x'; bytes]).into_response()
    }

    #[tokio::test]
    async fn an_answer_is_counted_until_its_last_byte() {
        let answers = answers_of(8 * LARGE_ANSWER_BYTES);
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
        let answers = answers_of(8 * (LARGE_ANSWER_BYTES + 1));
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
    fn a_holder_may_send_one_answer_of_any_size() {
        let answers = answers_of(4 * LARGE_ANSWER_BYTES);
        let ask = || answers.count(tenant("a"), IfFull::Refuse, answer(10 * LARGE_ANSWER_BYTES));
        let unread = ask();
        assert_eq!((unread.status().as_u16(), ask().status().as_u16()), (200, 503));
        let other = answers.count(tenant("b"), IfFull::Refuse, answer(LARGE_ANSWER_BYTES + 1));
        assert_eq!(other.status(), 200, "what is beyond one tenant's part is not taken from others");
    }

    #[test]
    fn simultaneous_calls_reserve_no_more_than_there_is() {
        let answers = answers_of(8 * LARGE_ANSWER_BYTES);
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
        let answers = answers_of(usize::MAX);
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
