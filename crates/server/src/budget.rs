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
use redrive_engine::{FairPermit, FairSemaphore};

use crate::limits::{LARGE_ANSWER_BYTES, LARGE_READS_HOLDER_MAX, LARGE_READS_MAX, LARGE_READS_WAIT_MS, ServerLimits};
use crate::problem::{Code, HttpProblem, Result};

/// Who holds memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// All callers without a key together.
    Anonymous,
    Tenant(Tenant),
    /// A key that spans tenants.
    Key(String),
}

/// The budget is used up, for this holder or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetFull;

#[derive(Debug)]
pub(crate) struct MemoryBudget {
    total_bytes: usize,
    holder_bytes: usize,
    used: Mutex<BudgetUse>,
}

#[derive(Debug, Default)]
struct BudgetUse {
    total: usize,
    by_holder: HashMap<Holder, usize>,
}

impl BudgetUse {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    /// Bytes beyond a holder's own bound do not count towards the total, which others need.
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

impl MemoryBudget {
    pub(crate) fn new(total_bytes: usize, holder_bytes: usize) -> Arc<Self> {
        Arc::new(Self { total_bytes, holder_bytes, used: Mutex::default() })
    }

    /// An empty share.
    pub(crate) fn share(self: &Arc<Self>, holder: Holder) -> BudgetShare {
        BudgetShare { budget: self.clone(), holder, bytes: 0 }
    }

    /// The bytes in use, of each holder at most its bound.
    pub(crate) fn used_bytes(&self) -> usize {
        self.lock().total
    }

    /// Whether a holder may take more.
    pub(crate) fn has_room(&self, holder: &Holder) -> bool {
        let used = self.lock();
        used.total < self.total_bytes && used.of(holder) < self.holder_bytes
    }

    fn lock(&self) -> MutexGuard<'_, BudgetUse> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that one request holds; returned when dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<MemoryBudget>,
    holder: Holder,
    bytes: usize,
}

impl BudgetShare {
    /// Takes that many bytes more, or none.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        self.grow_if(bytes, |budget, total, own| {
            total.saturating_add(bytes) <= budget.total_bytes && own.saturating_add(bytes) <= budget.holder_bytes
        })
    }

    /// The same, but a holder's first request is granted whatever its size, so that nothing is too large for ever.
    pub(crate) fn grow_or_be_the_only(&mut self, bytes: usize) -> Result<(), BudgetFull> {
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

    fn grow_if(
        &mut self,
        bytes: usize,
        may: impl FnOnce(&MemoryBudget, usize, usize) -> bool,
    ) -> Result<(), BudgetFull> {
        let mut used = self.budget.lock();
        if !may(&self.budget, used.total, used.of(&self.holder)) {
            return Err(BudgetFull);
        }
        let own = used.of(&self.holder).saturating_add(bytes);
        used.set(&self.holder, own, self.budget.holder_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

impl Drop for BudgetShare {
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
pub(crate) struct AnswerBudget {
    bytes: Arc<MemoryBudget>,
    /// Bounds concurrent large reads, as the size is known only afterwards.
    turns: FairSemaphore<Holder>,
}

/// What a full budget does to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// For a read, which can be repeated.
    Refuse,
    /// For a call that has taken effect: its answer must go out, and counts all the same.
    Send,
}

/// Room for an answer that is not made yet.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) bytes: usize,
    _share: BudgetShare,
}

impl AnswerBudget {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let bytes = MemoryBudget::new(limits.answers_max_bytes, limits.answers_max_bytes / 4);
        Self { bytes, turns: FairSemaphore::new(LARGE_READS_MAX, LARGE_READS_HOLDER_MAX) }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.bytes.used_bytes()
    }

    /// Checked before a call that takes effect and may have a large answer.
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

    /// The turn for a large read; held until the answer is written.
    pub(crate) async fn turn(&self, holder: Holder) -> Result<FairPermit> {
        let turn = self.turns.acquire(&holder);
        let waited = tokio::time::timeout(Duration::from_millis(LARGE_READS_WAIT_MS), turn).await;
        waited.ok().flatten().ok_or_else(busy)
    }

    /// Charges a large answer to its holder. Answers without a key are small or shared.
    pub(crate) fn count(&self, holder: Holder, if_full: IfFull, response: Response) -> Response {
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        debug_assert!(bytes.is_some(), "answers are built in memory, so their size is known");
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
        response.map(|body| Body::new(CountedBody { body, share }))
    }
}

fn busy() -> HttpProblem {
    let many = "too many large answers are still being sent: read those first, then retry";
    HttpProblem::new(Code::Busy, many).retry_after_s(RETRY_AFTER_S)
}

/// A body whose bytes keep their share until they are sent.
struct CountedBody {
    body: Body,
    share: Arc<BudgetShare>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let counted = |data| Bytes::from_owner(CountedBytes { data, _share: self.share.clone() });
        polled.map(|next| next.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct CountedBytes {
    data: Bytes,
    _share: Arc<BudgetShare>,
}

impl AsRef<[u8]> for CountedBytes {
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
        let budget = MemoryBudget::new(100, 60);
        let mut greedy = budget.share(tenant("a"));
        assert_eq!(greedy.grow(60), Ok(()));
        assert_eq!(greedy.grow(1), Err(BudgetFull));
        assert_eq!(budget.share(tenant("a")).grow(1), Err(BudgetFull));
        let mut other = budget.share(tenant("b"));
        assert_eq!((other.grow(40), other.grow(1)), (Ok(()), Err(BudgetFull)));
    }

    #[test]
    fn dropped_shares_return_their_bytes() {
        let budget = MemoryBudget::new(100, 100);
        let mut share = budget.share(Holder::Anonymous);
        share.grow(30).unwrap();
        share.grow(30).unwrap();
        assert_eq!(budget.used_bytes(), 60);
        drop(share);
        assert_eq!((budget.used_bytes(), budget.lock().by_holder.len()), (0, 0));
    }

    fn answers_of(max_bytes: usize) -> AnswerBudget {
        AnswerBudget::new(&ServerLimits { answers_max_bytes: max_bytes, ..ServerLimits::default() })
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
        assert_eq!(ask("a", IfFull::Send).status(), 200, "a completed call is always answered");
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
