use proptest::prelude::*;

use super::{
    Admission, Asker, Breaker, BreakerContext, BreakerEvent, BreakerState, BreakerStateName, ByHand, Counts, Key,
    Probe, Scope, apply, counts,
};
use crate::policy::BreakerSettings;
use crate::reason::Reason;
use crate::text::Label;
use crate::time::Timestamp;

const SETTINGS: BreakerSettings = BreakerSettings {
    on: true,
    window_ms: 10_000,
    min_attempts: 4,
    failure_share: 0.5,
    open_ms: 1_000,
    open_max_ms: 4_000,
};

/// A breaker with its clock and its generations, as a store would keep them.
#[derive(Debug, Clone)]
struct Watched {
    breaker: Breaker,
    now: Timestamp,
    last: u64,
    shared: bool,
}

impl Watched {
    fn new(shared: bool) -> Self {
        let now = Timestamp::from_millis(1_000_000);
        Self { breaker: Breaker::new(0, now), now, last: 0, shared }
    }

    fn at(self, ms: u64) -> Self {
        Self { now: self.now.plus_ms(ms), ..self }
    }

    fn give(&mut self, event: &BreakerEvent) {
        let turn = BreakerContext {
            settings: &SETTINGS,
            shared: self.shared,
            now: self.now,
            jitter: 0.5,
            next: self.last + 1,
        };
        let after = apply(&self.breaker, event, turn);
        if after.generation != self.breaker.generation {
            self.last += 1;
        }
        self.breaker = after;
    }

    fn ended(&mut self, voter: i64, counts: Counts) {
        let (attempt, generation) = (Probe { run: 1, epoch: 1 }, self.last);
        self.give(&BreakerEvent::Ended { attempt, voter, counts, generation });
    }

    fn opened(shared: bool) -> Self {
        let mut watched = Self::new(shared);
        (0..4).for_each(|n| watched.ended(n % 2, Counts::Failure));
        assert_eq!(watched.breaker.name(), BreakerStateName::Open);
        watched
    }

    fn half_open() -> Self {
        let mut watched = Self::opened(false).at(1_000);
        watched.give(&BreakerEvent::Tick);
        assert_eq!(watched.breaker.name(), BreakerStateName::HalfOpen);
        watched
    }

    fn until(&self) -> Option<Timestamp> {
        match &self.breaker.state {
            BreakerState::Open { until, .. } => *until,
            BreakerState::Closed { .. } | BreakerState::HalfOpen { .. } => None,
        }
    }
}

#[test]
fn a_breaker_opens_at_its_failure_share_and_minimum() {
    let mut few = Watched::new(false);
    (0..3).for_each(|_| few.ended(1, Counts::Failure));
    assert!(few.breaker.is_closed());
    let mut mostly_fine = Watched::new(false);
    (0..7).for_each(|_| mostly_fine.ended(1, Counts::Success));
    (0..6).for_each(|_| mostly_fine.ended(1, Counts::Failure));
    assert!(mostly_fine.breaker.is_closed());
    mostly_fine.ended(1, Counts::Failure);
    assert_eq!(mostly_fine.breaker.name(), BreakerStateName::Open);
}

#[test]
fn failures_before_the_window_do_not_count() {
    let mut watched = Watched::new(false);
    (0..3).for_each(|_| watched.ended(1, Counts::Failure));
    let mut watched = watched.at(SETTINGS.window_ms + 1_000);
    watched.ended(1, Counts::Failure);
    assert!(watched.breaker.is_closed());
}

#[test]
fn shared_breakers_need_two_failing_tenants() {
    let mut alone = Watched::new(true);
    (0..100).for_each(|_| alone.ended(1, Counts::Failure));
    assert!(alone.breaker.is_closed());
    alone.ended(2, Counts::Failure);
    assert!(alone.breaker.is_closed(), "one counts for no more than half of the minimum");
    alone.ended(2, Counts::Failure);
    assert_eq!(alone.breaker.name(), BreakerStateName::Open);
}

#[test]
fn successes_of_others_keep_a_shared_breaker_closed() {
    let mut watched = Watched::new(true);
    (0..50).for_each(|_| watched.ended(3, Counts::Success));
    (0..50).for_each(|n| watched.ended(n % 2, Counts::Failure));
    assert!(watched.breaker.is_closed());
}

#[test]
fn results_of_older_generations_are_ignored() {
    let mut watched = Watched::half_open();
    let late = |counts| BreakerEvent::Ended { attempt: Probe { run: 9, epoch: 1 }, voter: 1, counts, generation: 0 };
    for counts in [Counts::Success, Counts::Failure, Counts::Nothing] {
        let before = watched.breaker.clone();
        watched.give(&late(counts));
        assert_eq!(watched.breaker, before);
    }
    watched.give(&BreakerEvent::Reset);
    let before = watched.breaker.clone();
    (0..10).for_each(|_| watched.give(&late(Counts::Failure)));
    assert_eq!(watched.breaker, before);
}

#[test]
fn each_failed_probe_doubles_the_wait_up_to_its_cap() {
    let mut watched = Watched::half_open();
    for wait in [2_000, 4_000, 4_000] {
        let probe = Probe { run: 5, epoch: watched.last };
        watched.give(&BreakerEvent::ProbeGranted(probe));
        let generation = watched.last;
        watched.give(&BreakerEvent::Ended { attempt: probe, voter: 1, counts: Counts::Failure, generation });
        assert_eq!(watched.until().map(|until| until.since(watched.now)), Some(wait));
        watched = watched.at(wait);
        watched.give(&BreakerEvent::Tick);
    }
    let probe = Probe { run: 6, epoch: 1 };
    watched.give(&BreakerEvent::ProbeGranted(probe));
    let generation = watched.last;
    watched.give(&BreakerEvent::Ended { attempt: probe, voter: 1, counts: Counts::Success, generation });
    assert!(watched.breaker.is_closed() && watched.breaker.is_blank());
}

#[test]
fn lost_probes_free_the_slot() {
    let mut watched = Watched::half_open();
    let probe = Probe { run: 5, epoch: 1 };
    watched.give(&BreakerEvent::ProbeGranted(probe));
    assert_eq!(watched.breaker.admits(Asker::Retry), Admission::Hold);
    watched.give(&BreakerEvent::ProbeLost(Probe { epoch: 2, ..probe }));
    assert_eq!(watched.breaker.admits(Asker::Retry), Admission::Hold, "that was another attempt");
    watched.give(&BreakerEvent::ProbeLost(probe));
    assert_eq!(watched.breaker.admits(Asker::Retry), Admission::Probe);
}

#[test]
fn manual_opening_holds_replays_and_ends_closed() {
    let mut watched = Watched::opened(false);
    assert_eq!(
        (watched.breaker.admits(Asker::Retry), watched.breaker.admits(Asker::Replay)),
        (Admission::Hold, Admission::Pass)
    );
    let by = ByHand { actor: "key:ops".into(), reason: None };
    let until = Some(watched.now.plus_ms(5_000));
    watched.give(&BreakerEvent::OpenedByHand { by, until });
    assert_eq!(watched.breaker.admits(Asker::Replay), Admission::Hold);
    watched.give(&BreakerEvent::Tick);
    assert!(watched.breaker.is_by_hand());
    let mut watched = watched.at(5_000);
    watched.give(&BreakerEvent::Tick);
    assert!(watched.breaker.is_closed());
}

#[test]
fn reasons_count_by_breaker_scope() {
    let tenant = Scope::Tenant { tenant: "acme".parse().unwrap() };
    let model = Scope::Everywhere { provider: Label::from("openai"), model: Label::from("gpt-5") };
    let of = |scope, reason: &Reason| counts(scope, Some(reason));
    assert_eq!((counts(&tenant, None), counts(&model, None)), (Counts::Success, Counts::Success));
    assert_eq!((of(&tenant, &Reason::Bug), of(&model, &Reason::Bug)), (Counts::Failure, Counts::Nothing));
    assert_eq!((of(&tenant, &Reason::Timeout), of(&model, &Reason::Timeout)), (Counts::Failure, Counts::Failure));
    assert_eq!(of(&model, &Reason::ToolError), Counts::Success);
    for reason in [Reason::Cancelled, Reason::ApprovalExpired] {
        assert_eq!((of(&tenant, &reason), of(&model, &reason)), (Counts::Nothing, Counts::Nothing));
    }
}

#[test]
fn breaker_names_are_unique() {
    let model = |provider: &str, model: &str| Key {
        environment: Label::from("production"),
        scope: Scope::Everywhere { provider: Label::from(provider), model: Label::from(model) },
    };
    assert_eq!(model("openai", "gpt-5").name().as_str(), "breaker:everywhere/production/openai/gpt-5");
    assert_ne!(model("a/b", "c").name(), model("a", "b/c").name());
    let long = "é".repeat(400);
    assert_ne!(model(&long, "a").name(), model(&long, "b").name());
}

#[test]
fn windows_count_recent_attempts() {
    let figures = |watched: &Watched| match &watched.breaker.state {
        BreakerState::Closed { window } => window.figures(watched.now),
        other => panic!("{other:?}"),
    };
    let mut watched = Watched::new(false);
    assert_eq!(figures(&watched), (0, 0));
    watched.ended(1, Counts::Failure);
    (0..3).for_each(|_| watched.ended(1, Counts::Success));
    assert_eq!(figures(&watched), (4, 1));
    let mut watched = watched.at(9_000);
    watched.ended(2, Counts::Failure);
    assert_eq!(figures(&watched), (5, 2));
    let watched = watched.at(999);
    assert_eq!(figures(&watched), (5, 2));
    let watched = watched.at(1);
    assert_eq!(figures(&watched), (1, 1), "ten tenths later the first one is over");
    assert_eq!(figures(&watched.at(9_000)), (0, 0));
}

#[test]
fn windows_stay_small() {
    let mut watched = Watched::new(false);
    let bytes = |watched: &Watched| serde_json::to_string(&watched.breaker).unwrap().len();
    watched.ended(1, Counts::Success);
    let one = bytes(&watched);
    (0..200).for_each(|_| watched.ended(1, Counts::Success));
    assert!(bytes(&watched) < one + 5);
}

#[test]
fn changing_the_window_resets_it() {
    let mut watched = Watched::new(false);
    (0..3).for_each(|_| watched.ended(1, Counts::Failure));
    let settings = BreakerSettings { window_ms: 20_000, ..SETTINGS };
    let turn = BreakerContext { settings: &settings, shared: false, now: watched.now, jitter: 0.5, next: 1 };
    assert!(apply(&watched.breaker, &BreakerEvent::Tick, turn).is_blank());
    watched.give(&BreakerEvent::Tick);
    assert!(!watched.breaker.is_blank(), "the same window goes on");
}

#[test]
fn quiet_breakers_are_forgotten() {
    let mut watched = Watched::new(false);
    watched.ended(1, Counts::Success);
    let blank = Breaker::new(0, watched.breaker.since);
    assert_eq!(watched.breaker.forgotten(watched.now), Some(blank.clone()));
    assert!(watched.breaker.is_blank());
    watched.ended(1, Counts::Failure);
    assert_eq!(watched.breaker.forgotten(watched.now), None);
    assert!(!watched.breaker.is_blank());
    let mut watched = watched.at(10_000);
    assert_eq!(watched.breaker.forgotten(watched.now), Some(blank));
    watched.give(&BreakerEvent::Tick);
    assert!(watched.breaker.is_blank(), "time itself empties it");
    let opened = Watched::opened(false).breaker;
    assert!(!opened.is_blank() && !opened.is_closed() && !opened.is_by_hand());
    assert_eq!(opened.forgotten(Timestamp::from_millis(9_000_000)), None);
}

#[test]
fn openings_are_jittered_by_ten_percent() {
    for (jitter, wait_ms) in [(0.0, 900), (0.5, 1_000), (1.0, 1_100)] {
        let mut watched = Watched::new(false);
        (0..3).for_each(|_| watched.ended(1, Counts::Failure));
        let turn = BreakerContext { settings: &SETTINGS, shared: false, now: watched.now, jitter, next: 1 };
        let attempt = Probe { run: 1, epoch: 1 };
        let event = BreakerEvent::Ended { attempt, voter: 1, counts: Counts::Failure, generation: 0 };
        let BreakerState::Open { until, .. } = apply(&watched.breaker, &event, turn).state else {
            panic!("still closed")
        };
        assert_eq!(until, Some(watched.now.plus_ms(wait_ms)));
    }
}

#[test]
fn breaker_keys_know_their_tenant_and_scope() {
    let acme: crate::ids::Tenant = "acme".parse().unwrap();
    let key = |scope| Key { environment: Label::from("production"), scope };
    let (provider, model) = (Label::from("openai"), Label::from("gpt-5"));
    let tenant = key(Scope::Tenant { tenant: acme.clone() });
    let own = key(Scope::Model { tenant: acme.clone(), provider: provider.clone(), model: model.clone() });
    let everywhere = key(Scope::Everywhere { provider, model });
    let whose = |key: &Key| (key.tenant().cloned(), key.is_of_a_model(), key.other().map(|key| key.name().to_string()));
    assert_eq!(whose(&tenant), (Some(acme.clone()), false, Some("breaker:tenant/(other)/acme".into())));
    assert_eq!(whose(&own), (Some(acme), true, Some("breaker:model/(other)/acme/(other)/(other)".into())));
    assert_eq!(whose(&everywhere), (None, true, None));
    let of_length = |bytes: usize| {
        let scope = Scope::Tenant { tenant: "a".parse().unwrap() };
        let rest = "breaker:tenant//a".len();
        Key { environment: Label::from("e".repeat(bytes - rest).as_str()), scope }.name()
    };
    assert_eq!((of_length(160).as_str().len(), of_length(161).as_str().len()), (160, 160 + 17));
}

#[derive(Debug, Clone)]
enum Does {
    Begin { run: i64 },
    End { run: i64, counts: Counts },
    Crash { run: i64 },
    Wait(u64),
    Freeze(u64),
    Close,
}

fn does() -> impl Strategy<Value = Does> {
    let counts = prop_oneof![Just(Counts::Failure), Just(Counts::Success), Just(Counts::Nothing)];
    prop_oneof![
        6 => (0..16_i64).prop_map(|run| Does::Begin { run }),
        6 => (0..16_i64, counts).prop_map(|(run, counts)| Does::End { run, counts }),
        1 => (0..16_i64).prop_map(|run| Does::Crash { run }),
        3 => (1..2_000_u64).prop_map(Does::Wait),
        1 => (1..3_000_u64).prop_map(Does::Freeze),
        1 => Just(Does::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// However workers begin, end and crash: while it is half open at most one of them is let in, results of older
    /// generations move nothing, and generations only rise.
    #[test]
    fn half_open_admits_exactly_one_probe(script in prop::collection::vec(does(), 1..200)) {
        let mut watched = Watched::new(false);
        // The attempt under way of each worker: its epoch and the generation it began in.
        let mut under_way: [Option<(u64, u64)>; 16] = [None; 16];
        let (mut epoch, mut probing) = (0, None);
        for does in script {
            let before = watched.breaker.clone();
            watched.give(&BreakerEvent::Tick);
            if watched.breaker.generation != before.generation { probing = None; }
            match does {
                Does::Begin { run } if under_way[run as usize].is_none() => {
                    let admitted = watched.breaker.admits(Asker::Retry);
                    prop_assert_eq!(admitted == Admission::Hold,
                        watched.breaker.name() == BreakerStateName::Open || (watched.breaker.name() == BreakerStateName::HalfOpen && probing.is_some()));
                    if admitted == Admission::Hold { continue }
                    epoch += 1;
                    under_way[run as usize] = Some((epoch, watched.last));
                    if admitted == Admission::Probe {
                        prop_assert!(probing.is_none());
                        probing = Some((run, epoch));
                        watched.give(&BreakerEvent::ProbeGranted(Probe { run, epoch }));
                    }
                }
                Does::End { run, counts } => {
                    let Some((epoch, generation)) = under_way[run as usize].take() else { continue };
                    let before = watched.breaker.clone();
                    watched.give(&BreakerEvent::Ended { attempt: Probe { run, epoch }, voter: run % 2, counts, generation });
                    if generation < before.generation { prop_assert_eq!(&watched.breaker, &before); }
                    if probing == Some((run, epoch)) { probing = None; }
                }
                Does::Crash { run } => {
                    let Some((epoch, _)) = under_way[run as usize].take() else { continue };
                    watched.give(&BreakerEvent::ProbeLost(Probe { run, epoch }));
                    if probing == Some((run, epoch)) { probing = None; }
                }
                Does::Wait(ms) => watched = watched.at(ms),
                Does::Freeze(ms) => {
                    let until = Some(watched.now.plus_ms(ms));
                    watched.give(&BreakerEvent::OpenedByHand { by: ByHand { actor: "ops".into(), reason: None }, until });
                    probing = None;
                }
                Does::Close => { watched.give(&BreakerEvent::Reset); probing = None; }
                Does::Begin { .. } => {}
            }
            prop_assert!(watched.breaker.generation >= before.generation);
        }
    }
}
