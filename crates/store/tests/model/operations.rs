//! R5: a start moves exactly the previewed set. The model freezes its own set, whatever happens to the runs in between,
//! and predicts the outcome of each.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::operation::Steer;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::wire::{ItemOutcome, OperationState};
use redrive_engine::{Bulk, BulkReplay, ItemsCall, NewOperation, Over, RunFilter, RunRef, Triage};

use crate::act::TENANTS;
use crate::play::Play;
use crate::reference::{Run, key};

type Key = (String, String);

/// Where a run stood when the set was frozen, and whether it would take the action.
#[derive(Debug, Clone, Copy)]
struct Frozen {
    stood: (StateName, u32, u32),
    eligible: bool,
}

#[derive(Debug)]
pub struct Operation {
    id: String,
    triage: Triage,
    set: BTreeMap<Key, Frozen>,
    started: bool,
}

/// A run that somebody has decided on since does not stand as it did.
fn stands(run: &Run) -> (StateName, u32, u32) {
    (run.state, run.attempt, run.decisions)
}

/// What became of a run afterwards is another operation's doing.
fn had_its_turn(outcome: ItemOutcome) -> ItemOutcome {
    match outcome {
        ItemOutcome::Moved | ItemOutcome::Succeeded | ItemOutcome::Failed => ItemOutcome::Moved,
        ItemOutcome::Waiting | ItemOutcome::Skipped | ItemOutcome::Ineligible => outcome,
    }
}

type Wanted = Box<dyn Fn(&Key, &Run) -> bool>;

/// Some runs as the call names them, and as the model knows them.
fn some_of(play: &Play) -> (Over, Wanted) {
    let lot = &play.lot;
    if lot.one_in(3) {
        let named: Vec<RunRef> = (0..1 + lot.upto(6)).map(|_| play.any()).collect();
        let keys: BTreeSet<Key> = named.iter().map(key).collect();
        return (Over::Runs(named), Box::new(move |key, _| keys.contains(key)));
    }
    let states = match lot.below(3) {
        0 => vec![StateName::Dead],
        1 => vec![StateName::Dead, StateName::Scheduled, StateName::Review],
        _ => Vec::new(),
    };
    let tenant = lot.one_in(2).then(|| *lot.pick(&TENANTS));
    let filter = RunFilter {
        states: states.clone(),
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        ..RunFilter::default()
    };
    let wanted = move |key: &Key, run: &Run| {
        (states.is_empty() || states.contains(&run.state)) && tenant.is_none_or(|tenant| key.0 == tenant)
    };
    (Over::Filter(Box::new(filter)), Box::new(wanted))
}

impl Play {
    /// A preview moves nothing, and counts what the model counts.
    pub async fn preview(&mut self) {
        let (over, wanted) = some_of(self);
        let replay = Bulk::Replay(Box::new(BulkReplay { payload_max_bytes: 1 << 20, ..BulkReplay::default() }));
        let (bulk, triage) = match self.lot.below(4) {
            0 => (Bulk::Resolve, Triage::Resolve),
            1 => (Bulk::Discard, Triage::Discard),
            _ => (replay, Triage::replay(false)),
        };
        let new = NewOperation {
            over,
            bulk,
            reason: Some(Text::from("fixed")),
            rate_per_s: None,
            canary: None,
            settle_ms: 900_000,
            dry_run: true,
            filter: serde_json::value::RawValue::from_string("{}".into()).unwrap(),
        };
        let said = self.world.store.create_operation(new, "key:ops".into()).await.unwrap();
        let freeze = |run: &Run| Frozen { stood: stands(run), eligible: run.takes(&triage) };
        let set: BTreeMap<Key, Frozen> = self
            .model
            .runs
            .iter()
            .filter(|(key, run)| wanted(key, run))
            .map(|(key, run)| (key.clone(), freeze(run)))
            .collect();
        let eligible = set.values().filter(|frozen| frozen.eligible).count();
        assert_eq!((said.state, said.preparing), (OperationState::Preview, false));
        assert_eq!((said.matched, said.eligible), (set.len() as u64, eligible as u64), "{set:?}");
        self.operations.push(Operation { id: said.id, triage, set, started: false });
        self.done += 1;
        self.compare(&self.model.runs.keys().cloned().collect()).await;
    }

    pub async fn start_operation(&mut self) {
        let waiting: Vec<usize> = (0..self.operations.len()).filter(|n| !self.operations[*n].started).collect();
        if waiting.is_empty() {
            return;
        }
        let newest = waiting.last().filter(|_| self.lot.one_in(2));
        let operation = &mut self.operations[*newest.unwrap_or_else(|| self.lot.pick(&waiting))];
        let said = self.world.store.steer_operation(&operation.id, Steer::Start).await.unwrap();
        assert_eq!((said.state, said.matched), (OperationState::Running, operation.set.len() as u64));
        operation.started = true;
        self.done += 1;
    }

    /// The items that were previewed have their turn, in the order of their operations, and no run beside them moves.
    pub async fn work(&mut self) {
        while self.world.store.work_operations("one").await.unwrap().more {}
        let now = self.now();
        let (started, waiting) = std::mem::take(&mut self.operations).into_iter().partition(|it| it.started);
        self.operations = waiting;
        let mut started: Vec<Operation> = started;
        started.sort_by_key(|operation| operation.id.trim_start_matches("op-").parse::<u64>().unwrap());
        for operation in started {
            let mut wanted = BTreeMap::new();
            for (key, frozen) in &operation.set {
                let run = self.model.runs.get_mut(key).unwrap();
                let outcome = match frozen.eligible {
                    false => ItemOutcome::Ineligible,
                    true if stands(run) == frozen.stood && run.takes(&operation.triage) => {
                        run.moved_by(&operation.triage, now);
                        ItemOutcome::Moved
                    }
                    true => ItemOutcome::Skipped,
                };
                wanted.insert(key.clone(), outcome);
            }
            let call = ItemsCall { outcomes: Vec::new(), limit: 500, cursor: None };
            let told = self.world.store.operation_items(&operation.id, call).await.unwrap().items;
            let told: BTreeMap<Key, ItemOutcome> = told
                .into_iter()
                .map(|item| ((item.tenant.unwrap().to_string(), item.run_id.unwrap().to_string()), item.outcome))
                .map(|(key, outcome)| (key, had_its_turn(outcome)))
                .collect();
            assert_eq!(told, wanted, "{}", operation.id);
            self.moved += wanted.values().filter(|outcome| **outcome == ItemOutcome::Moved).count();
            self.skipped += wanted.values().filter(|outcome| **outcome == ItemOutcome::Skipped).count();
        }
        self.done += 1;
        self.compare(&self.model.runs.keys().cloned().collect()).await;
    }
}
