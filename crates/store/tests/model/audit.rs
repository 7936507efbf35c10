//! Compares the store with the model: each touched run, and now and then everything.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{RunSummary, Sort};
use redrive_engine::{Error, PageCall, RunFilter, TenantScope};

use crate::act::TENANTS;
use crate::play::Play;
use crate::reference::Ended;
use crate::steps::{Known, shown_step};
use crate::world::at;

type Key = (String, String);

impl Play {
    /// What the engine decided on a silence, bounded as every verdict is.
    pub async fn judged_by_the_engine(&mut self, key: &Key, now: Timestamp) {
        let shown = self.world.store.run(&at(&key.0, &key.1)).await.unwrap().summary;
        let run = self.model.runs.get_mut(key).unwrap();
        run.ended = Some(Ended::Expired);
        run.keep(run.attempt, "failed", None, now);
        run.judged(shown.state, shown.next_attempt_at, now);
    }

    pub async fn compare(&mut self, touched: &BTreeSet<Key>) {
        let now = self.now();
        for key in touched {
            let shown = self.world.store.run(&at(&key.0, &key.1)).await;
            let Some(run) = self.model.runs.get_mut(key) else {
                assert!(matches!(shown, Err(Error::NotFound(_))), "{key:?}: {shown:?}");
                continue;
            };
            let shown = shown.unwrap();
            let due = shown.summary.next_attempt_at;
            if run.state == StateName::Scheduled && run.ended == Some(Ended::Released) && run.due != due {
                let wait = due.unwrap().since(now);
                assert!((1_000..=300_000).contains(&wait), "released, and due in {wait} ms");
                run.due = due;
            }
            assert_eq!((shown.summary.state, shown.summary.attempt, due), (run.state, run.attempt, run.due), "{key:?}");
            let mut kept: Vec<(u32, &str)> = run.kept.iter().map(|(attempt, kept)| (*attempt, kept.outcome)).collect();
            kept.extend(run.live.as_ref().map(|_| (run.attempt, "running")));
            let mut attempts: Vec<(u32, &str)> =
                shown.body.attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome.as_str())).collect();
            attempts.sort_unstable();
            assert_eq!(attempts, kept, "{key:?}");
            let mut steps: Vec<(&str, Known)> = shown.body.steps.iter().map(shown_step).collect();
            steps.sort_unstable();
            assert_eq!(steps, run.steps.iter().map(|(key, step)| (*key, step.known)).collect::<Vec<_>>(), "{key:?}");
            let by_people = shown.body.history.iter().filter(|entry| entry.actor == "key:ops").count();
            assert_eq!(by_people, run.triaged, "{key:?}: {:?}", shown.body.history);
        }
    }

    /// Every run, and every counter against a recount of the list.
    pub async fn audit(&mut self) {
        self.compare(&self.model.runs.keys().cloned().collect()).await;
        self.recount(&TenantScope::All).await;
        for tenant in TENANTS {
            self.recount(&TenantScope::One(tenant.parse().unwrap())).await;
        }
    }

    async fn recount(&self, scope: &TenantScope) {
        let mine = |tenant: &str| match scope {
            TenantScope::All => true,
            TenantScope::One(one) => one.as_str() == tenant,
        };
        let everything = self.list(scope, Vec::new()).await;
        assert!(everything.0.iter().all(|run| mine(run.tenant.as_str())), "{scope:?} sees another's");
        let expected = self.model.runs.keys().filter(|key| mine(&key.0)).count();
        assert_eq!((everything.0.len(), everything.1), (expected, expected), "{scope:?}");
        let mut by_state: BTreeMap<StateName, usize> = BTreeMap::new();
        for run in &everything.0 {
            *by_state.entry(run.state).or_default() += 1;
        }
        for state in StateName::ALL.iter().copied() {
            let (runs, total) = self.list(scope, vec![state]).await;
            let wanted = by_state.get(&state).copied().unwrap_or(0);
            assert_eq!((runs.len(), total), (wanted, wanted), "{scope:?} {state}");
        }
    }

    async fn list(&self, scope: &TenantScope, states: Vec<StateName>) -> (Vec<RunSummary>, usize) {
        let filter = RunFilter { states, ..RunFilter::default() };
        let page = PageCall { sort: Sort::Received, limit: 500, cursor: None, count: true };
        let page = self.world.store.runs(scope, filter, page).await.unwrap();
        (page.runs, usize::try_from(page.total.unwrap()).unwrap())
    }
}
