//! Draws actions, sends them, and passes the answers to the model.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use redrive_core::absence::attended_since;
use redrive_core::policy::Policies;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, QueueSettings, StepStatus};
use redrive_engine::{LeaseCall, LeaseToken, RunRef, TenantScope, Triage};

use crate::act::{CALLS, Do, RUNS, STEP_KEYS, TENANTS, VERBS, WORDS, has_effects, report};
use crate::lot::Lot;
use crate::operations::Operation;
use crate::reference::{Model, is_callers, key};
use crate::world::{World, at, lease_call};

const GROUP_MAX: usize = 16;
const AUDIT_EVERY_GROUPS: usize = 100;
const LEASES_MS: [u64; 3] = [1_000, 30_000, 600_000];

pub struct Play {
    pub world: World,
    pub model: Model,
    pub lot: Lot,
    pub done: usize,
    /// Previewed, and started but not worked on yet.
    pub operations: Vec<Operation>,
    pub moved: usize,
    pub skipped: usize,
}

impl Play {
    pub async fn new(lot: Lot) -> Self {
        println!("world {}", lot.seed);
        let world = world().await;
        let settings = QueueSettings { retry_by: redrive_core::policy::RetryBy::Caller, ..QueueSettings::default() };
        world.store.put_queue(CALLS.parse().unwrap(), settings).await.unwrap();
        Self { world, model: Model::default(), lot, done: 0, operations: Vec::new(), moved: 0, skipped: 0 }
    }

    pub fn now(&self) -> Timestamp {
        self.world.store.now()
    }

    pub async fn acts(&mut self, most: usize) {
        let mut groups = 0;
        while self.done < most {
            match self.lot.below(20) {
                0..=1 => self.lease().await,
                2 => self.stamp().await,
                3..=4 => self.rescue().await,
                5 if self.lot.one_in(20) => self.reject_unclaimed().await,
                6 if self.lot.one_in(10) => self.expire_reviews().await,
                7 if self.lot.one_in(2) => match self.lot.below(3) {
                    0 => {
                        self.preview().await;
                        // What waits finds most of its runs changed; some must find them as they were.
                        if self.lot.one_in(2) {
                            self.start_operation().await;
                            self.work().await;
                        }
                    }
                    1 => self.start_operation().await,
                    _ => self.work().await,
                },
                5..=7 => self.pass(),
                _ => self.group().await,
            }
            groups += 1;
            if groups % AUDIT_EVERY_GROUPS == 0 {
                self.audit().await;
            }
        }
    }

    /// Several acts at once: one transaction, or a few; they take effect in their order.
    async fn group(&mut self) {
        let acts: Vec<Do> = (0..1 + self.lot.upto(GROUP_MAX)).map(|_| self.draw()).collect();
        let now = self.now();
        let said = at_once(acts.iter().map(|act| act.clone().send(self.world.store.clone())).collect()).await;
        let mut touched = BTreeSet::new();
        for (act, said) in acts.iter().zip(said) {
            touched.insert(key(act.at()));
            self.model.take(act, said, now);
        }
        self.done += acts.len();
        self.compare(&touched).await;
    }

    fn draw(&self) -> Do {
        let (at, lot) = (self.any(), &self.lot);
        let words = lot.upto(WORDS.len());
        let last = self.model.runs.get(&key(&at)).map_or(0, |run| run.attempt);
        let attempt = match lot.below(4) {
            0 => Some(u32::try_from(1 + lot.below(u64::from(last) + 2)).unwrap()),
            1 => Some(last + 1),
            _ => None,
        };
        match lot.below(12) {
            0..=2 => Do::Report { at, attempt, words },
            3 => {
                let start_id = (!lot.one_in(3)).then(|| Label::from(["s1", "s2"][lot.upto(2)]));
                Do::Start { at, start_id, other_payload: lot.one_in(10), lease_ms: *lot.pick(&LEASES_MS) }
            }
            4 => Do::Enqueue { at, due_at: lot.one_in(2).then(|| self.now().plus_ms(lot.below(60_000))) },
            5..=7 => Do::Under { lease: self.some_lease(&at), at, verb: *lot.pick(&VERBS), words },
            8..=9 if lot.one_in(3) && has_effects(&at) => {
                let outcome = *lot.pick(&[EffectOutcome::Committed, EffectOutcome::NotDone]);
                Do::Reconcile { at, key: STEP_KEYS[lot.upto(STEP_KEYS.len())], outcome }
            }
            8..=9 => {
                let key = if has_effects(&at) { *lot.pick(&STEP_KEYS) } else { *lot.pick(&STEP_KEYS[..2]) };
                let status = *lot.pick(&[StepStatus::Started, StepStatus::Committed, StepStatus::Failed]);
                let checked = status != StepStatus::Started && lot.one_in(3);
                let call = *lot.pick(&[None, Some("c1"), Some("c2")]);
                Do::Step { lease: self.some_lease(&at), at, key, status, checked, call }
            }
            10 => Do::SucceedByCaller { at, attempt, words },
            _ => {
                let force = lot.one_in(3);
                let all = [
                    Triage::replay(force),
                    Triage::replay(force),
                    Triage::Cancel,
                    Triage::Resolve,
                    Triage::Discard,
                    Triage::Note,
                    Triage::Review,
                    Triage::Reject,
                    Triage::Unmerge,
                    Triage::Assign { to: lot.one_in(2).then(|| Label::from("ops")) },
                    Triage::Reassign { agent: Some(Label::from("other")), queue: None },
                ];
                Do::Triage { at, triage: lot.pick(&all).clone() }
            }
        }
    }

    pub fn any(&self) -> RunRef {
        at(TENANTS[self.lot.upto(TENANTS.len())], RUNS[self.lot.upto(RUNS.len())])
    }

    /// The last lease of the run, an older one, another run's or tenant's, or one that nobody granted.
    fn some_lease(&self, at: &RunRef) -> LeaseToken {
        let of = |at: &RunRef| self.model.runs.get(&key(at)).map_or(&[][..], |run| &run.granted);
        let nobody = LeaseToken { run: 1, attempt: 1, epoch: 1_000_000, proof: 1 };
        let last = of(at).last().copied().unwrap_or(nobody);
        match self.lot.below(10) {
            0..=4 => last,
            5..=6 if !of(at).is_empty() => *self.lot.pick(of(at)),
            7 => of(&self.any()).last().copied().unwrap_or(nobody),
            8 => LeaseToken { epoch: last.epoch + 1 + self.lot.below(3), ..last },
            // Its number is another run's when the store puts the two together carelessly.
            _ => LeaseToken { attempt: last.attempt + *self.lot.pick(&[1, 1 << 20, 1 << 21, 3 << 20]), ..last },
        }
    }

    async fn lease(&mut self) {
        let scope = match self.lot.below(2) {
            0 => TenantScope::All,
            _ => TenantScope::One(self.any().tenant),
        };
        let (max, lease_ms) = (self.lot.upto(6), *self.lot.pick(&LEASES_MS));
        let now = self.now();
        let in_scope = |tenant: &str| match &scope {
            TenantScope::All => true,
            TenantScope::One(one) => one.as_str() == tenant,
        };
        let due = |(key, run): (&(String, String), &crate::reference::Run)| {
            in_scope(&key.0) && !key.1.starts_with('c') && run.due.is_some_and(|due| due <= now)
        };
        // L3: nothing that is due stays unseen.
        let expected = self.model.runs.iter().filter(|of| due(*of)).count().min(max);
        let max = u32::try_from(max).unwrap();
        let call = LeaseCall { scope: scope.clone(), lease_ms: Some(lease_ms), ..lease_call(max) };
        let leased = self.world.store.lease(call).await.unwrap();
        assert_eq!(leased.len(), expected);
        let mut touched = BTreeSet::new();
        for leased in &leased {
            let at = RunRef { tenant: leased.tenant.clone(), run_id: leased.run_id.clone() };
            assert!(due((&key(&at), &self.model.runs[&key(&at)])) && !is_callers(&at), "{at:?} was not due");
            self.model.granted(&at, Some(&leased.lease), None, lease_ms, now);
            touched.insert(key(&at));
        }
        self.done += 1;
        self.compare(&touched).await;
    }

    async fn stamp(&mut self) {
        self.world.store.stamp("r1").await.unwrap();
        self.model.stamped(self.now());
        self.done += 1;
    }

    async fn rescue(&mut self) {
        let now = self.now();
        let (silent, extended) = self.model.quiet(now);
        let swept = self.world.store.rescue_expired(500).await.unwrap();
        assert_eq!(swept.moved, silent.len() + extended);
        for key in &silent {
            self.judged_by_the_engine(key, now).await;
        }
        self.done += 1;
        self.compare(&silent.into_iter().collect()).await;
    }

    async fn reject_unclaimed(&mut self) {
        self.world.store.reject_unclaimed(500).await.unwrap();
        let now = self.now();
        self.model.looked(now);
        let absences = self.model.newest_absences();
        let oldest = attended_since(now, 24 * 3_600_000, &absences);
        let mut touched = BTreeSet::new();
        for (key, run) in &mut self.model.runs {
            if run.due.is_some_and(|due| due <= oldest) {
                (run.state, run.due) = (redrive_core::run::StateName::Dead, None);
                touched.insert(key.clone());
            }
        }
        self.done += 1;
        self.compare(&touched).await;
    }

    async fn expire_reviews(&mut self) {
        self.world.store.expire_reviews(500).await.unwrap();
        let now = self.now();
        self.model.looked(now);
        let absences = self.model.newest_absences();
        let mut touched = BTreeSet::new();
        for (key, run) in &mut self.model.runs {
            run.review_until = run.review_until.map(|until| until.attended(now, &absences));
            let lapsed = run.review_until.is_some_and(|until| until.at <= now);
            if run.state == redrive_core::run::StateName::Review && lapsed {
                run.state = redrive_core::run::StateName::Dead;
                touched.insert(key.clone());
            }
        }
        self.done += 1;
        self.compare(&touched).await;
    }

    fn pass(&mut self) {
        let ms = match self.lot.below(100) {
            0 => 25 * 3_600_000,
            1..=5 => 1_800_000,
            6..=30 => self.lot.below(120_000),
            _ => self.lot.below(5_000),
        };
        self.world.wait(ms);
    }

    /// D2: good items, repeats and conflicts, of several tenants, in one call.
    pub async fn batch(&mut self) {
        let draw = |_| {
            let at = self.any();
            let last = self.model.runs.get(&key(&at)).map_or(0, |run| run.attempt);
            let attempt =
                (!self.lot.one_in(4)).then(|| u32::try_from(1 + self.lot.below(u64::from(last) + 4)).unwrap());
            (at, attempt, self.lot.upto(WORDS.len()))
        };
        let items: Vec<_> = (0..1 + self.lot.upto(40)).map(draw).collect();
        let reports = items.iter().map(|(at, attempt, words)| report(at, *attempt, *words)).collect();
        let now = self.now();
        let said = self.world.store.report_all(reports).await;
        assert_eq!(said.len(), items.len());
        let mut touched = BTreeSet::new();
        for ((at, attempt, words), said) in items.iter().zip(said) {
            touched.insert(key(at));
            self.model.report(at, *attempt, *words, said, now);
        }
        self.done += items.len();
        self.compare(&touched).await;
        self.pass();
    }
}

/// A store of the kind that the suite is about.
pub async fn world() -> World {
    if private_postgres::is_meant(module_path!()) { World::postgres().await } else { World::sqlite_in(folder()).await }
}

/// The same under other policies.
pub async fn world_under(policies: Policies) -> World {
    if private_postgres::is_meant(module_path!()) {
        World::postgres_under(policies).await
    } else {
        World::sqlite_under(folder(), policies).await
    }
}

/// In memory where there is such a place: the laws are about what is written, and not about how long a disk takes.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// All are begun in their order before any has ended.
pub async fn at_once<T>(acts: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut acts: Vec<Pin<Box<_>>> = acts.into_iter().map(Box::pin).collect();
    let mut said: Vec<Option<T>> = acts.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (act, said) in acts.iter_mut().zip(&mut said) {
            if said.is_none()
                && let Poll::Ready(answer) = act.as_mut().poll(context)
            {
                *said = Some(answer);
            }
        }
        if said.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    said.into_iter().flatten().collect()
}
