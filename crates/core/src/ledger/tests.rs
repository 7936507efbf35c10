use super::*;
use crate::run::Effects;
use crate::text::Label;
use crate::wire::EffectOutcome::{Committed, NotDone};
use crate::wire::{EffectOutcome, StepStatus, Versions};

const STATES: [EntryState; 6] = [
    EntryState::Started,
    EntryState::Committed,
    EntryState::Failed,
    EntryState::Unknown,
    EntryState::Reconciled(Committed),
    EntryState::Reconciled(NotDone),
];
const REPORTS: [EntryReport; 5] = [
    EntryReport::Started,
    EntryReport::Outcome(Committed),
    EntryReport::Outcome(NotDone),
    EntryReport::Checked(Committed),
    EntryReport::Checked(NotDone),
];
const MINE: u64 = 7;

fn ways() -> [By; 6] {
    let leases = [MINE, 8];
    let of = |by: fn(u64) -> By| leases.map(by);
    let [a, b] = of(|epoch| By::Live { epoch });
    let [c, d] = of(|epoch| By::End { epoch });
    let [e, f] = of(|epoch| By::Late { epoch });
    [a, b, c, d, e, f]
}

fn entry(state: EntryState) -> Entry {
    Entry { state, effect: true, epoch: MINE, own: true, call: CallMatch::Unnamed, becomes_effect: false }
}

/// Every entry there can be, with every report in every way.
fn each(mut law: impl FnMut(Entry, EntryReport, By, Result<Recorded, EntryRefused>)) {
    for state in STATES {
        for [own, effect, becomes] in (0..8).map(|n| [n & 1, n & 2, n & 4].map(|bit| bit != 0)) {
            for call in [CallMatch::Same, CallMatch::Other, CallMatch::Unnamed] {
                for report in REPORTS {
                    for by in ways() {
                        let becomes_effect = becomes && !effect;
                        let entry = Entry { own, effect, call, becomes_effect, ..entry(state) };
                        law(entry, report, by, apply(Some(&entry), report, by));
                    }
                }
            }
        }
    }
}

fn live(state: EntryState, report: EntryReport, epoch: u64) -> Result<Recorded, EntryRefused> {
    apply(Some(&entry(state)), report, By::Live { epoch })
}

#[test]
fn done_entries_stay_done() {
    each(|entry, report, by, answer| {
        if entry.state.known() == Known::Done {
            let moved = matches!(answer, Ok(Recorded::Now(now)) if now.known() != Known::Done);
            assert!(!moved, "{entry:?} {report:?} {by:?}: {answer:?}");
        }
    });
}

#[test]
fn an_effect_begins_only_where_nothing_happened() {
    each(|entry, report, by, answer| {
        if answer == Ok(Recorded::Now(EntryState::Started)) && entry.effect {
            assert_eq!((entry.state.known(), report), (Known::NotDone, EntryReport::Started), "{by:?}");
        }
    });
}

#[test]
fn an_ended_lease_only_settles_what_it_began() {
    each(|entry, report, by, answer| {
        let By::Late { epoch } = by else { return };
        if report == EntryReport::Started || epoch != entry.epoch || !entry.own {
            assert_eq!(answer, Err(EntryRefused::Fenced), "{entry:?} {report:?}");
        }
    });
    for report in REPORTS {
        assert_eq!(apply(None, report, By::Late { epoch: MINE }), Err(EntryRefused::Fenced));
    }
}

#[test]
fn reports_at_the_end_are_never_refused() {
    each(|entry, report, by, answer| {
        if matches!(by, By::End { .. }) {
            assert!(answer.is_ok(), "{entry:?} {report:?}: {answer:?}");
        }
    });
}

#[test]
fn entries_of_other_runs_never_change() {
    each(|entry, report, by, answer| {
        if !entry.own && entry.state.holds() {
            assert!(!matches!(answer, Ok(Recorded::Now(_))), "{entry:?} {report:?} {by:?}: {answer:?}");
        }
    });
}

#[test]
fn only_a_check_or_its_own_lease_settles_not_done() {
    let doubt = EntryState::Unknown;
    assert_eq!(live(doubt, EntryReport::Started, 8), Err(EntryRefused::InDoubt));
    assert_eq!(live(doubt, EntryReport::Outcome(NotDone), 8), Err(EntryRefused::InDoubt));
    assert_eq!(live(doubt, EntryReport::Outcome(NotDone), MINE), Ok(Recorded::Now(EntryState::Failed)));
    assert_eq!(live(doubt, EntryReport::Checked(NotDone), 8), Ok(Recorded::Now(EntryState::Reconciled(NotDone))));
    assert_eq!(live(doubt, EntryReport::Checked(Committed), 8), Ok(Recorded::Now(EntryState::Reconciled(Committed))));
    assert_eq!(live(doubt, EntryReport::Outcome(Committed), 8), Ok(Recorded::Now(EntryState::Committed)));
}

#[test]
fn keys_held_by_another_run_answer_by_their_state() {
    let others = |state, by| apply(Some(&Entry { own: false, ..entry(state) }), EntryReport::Started, by);
    let asked = By::Live { epoch: 1 };
    assert_eq!(others(EntryState::Started, asked), Err(EntryRefused::InProgress));
    assert_eq!(others(EntryState::Unknown, asked), Err(EntryRefused::InDoubt));
    assert_eq!(others(EntryState::Committed, asked), Ok(Recorded::Replayed));
    assert_eq!(others(EntryState::Failed, asked), Ok(Recorded::Now(EntryState::Started)));
    let told = By::End { epoch: 0 };
    assert_eq!(others(EntryState::Started, told), Ok(Recorded::Beside(EntryState::Started)));
}

#[test]
fn only_one_call_does_an_effect_under_a_lease() {
    let again = |effect, call, epoch| {
        let open = Entry { effect, call, ..entry(EntryState::Started) };
        apply(Some(&open), EntryReport::Started, By::Live { epoch })
    };
    assert_eq!(again(true, CallMatch::Same, MINE), Ok(Recorded::Same), "its answer was lost");
    assert_eq!(again(true, CallMatch::Other, MINE), Err(EntryRefused::InProgress));
    assert_eq!(again(true, CallMatch::Unnamed, MINE), Err(EntryRefused::InProgress));
    assert_eq!(again(false, CallMatch::Other, MINE), Ok(Recorded::Same), "a plain step does no harm");
    assert_eq!(again(true, CallMatch::Same, 8), Err(EntryRefused::InDoubt), "another lease is never the same call");
}

#[test]
fn only_the_starting_call_reports_failure() {
    let failed =
        |call, by| apply(Some(&Entry { call, ..entry(EntryState::Started) }), EntryReport::Outcome(NotDone), by);
    let (live, late) = (By::Live { epoch: MINE }, By::Late { epoch: MINE });
    for by in [live, late] {
        assert_eq!(failed(CallMatch::Same, by), Ok(Recorded::Now(EntryState::Failed)));
        assert_eq!(failed(CallMatch::Unnamed, by), Ok(Recorded::Now(EntryState::Failed)));
    }
    assert_eq!(failed(CallMatch::Other, live), Err(EntryRefused::InProgress));
    assert_eq!(failed(CallMatch::Other, late), Err(EntryRefused::Fenced));
}

#[test]
fn plain_steps_become_effects_by_a_new_intent() {
    let plain = Entry { effect: false, becomes_effect: true, ..entry(EntryState::Started) };
    let by = By::Live { epoch: MINE };
    assert_eq!(apply(Some(&plain), EntryReport::Started, by), Ok(Recorded::Now(EntryState::Started)));
    let done = Entry { state: EntryState::Committed, ..plain };
    assert_eq!(apply(Some(&done), EntryReport::Started, by), Ok(Recorded::Replayed));
    assert_eq!(apply(Some(&done), EntryReport::Outcome(Committed), by), Ok(Recorded::Now(EntryState::Committed)));
}

#[test]
fn reconciling_settles_an_unknown_effect_once() {
    let settled = EntryState::Reconciled(Committed);
    assert_eq!(reconcile(EntryState::Unknown, Committed), Ok(Recorded::Now(settled)));
    assert_eq!(reconcile(settled, Committed), Ok(Recorded::Same));
    assert_eq!(reconcile(settled, NotDone), Err(EntryRefused::Settled(StepStatus::Reconciled)));
    assert_eq!(reconcile(EntryState::Started, NotDone), Err(EntryRefused::StillOpen));
    assert_eq!(reconcile(EntryState::Failed, Committed), Err(EntryRefused::Settled(StepStatus::Failed)));
}

#[test]
fn a_late_commit_outweighs_a_persons_not_done() {
    let late = |state, outcome| apply(Some(&entry(state)), EntryReport::Outcome(outcome), By::Late { epoch: MINE });
    let now = Ok(Recorded::Now(EntryState::Committed));
    assert_eq!(late(EntryState::Reconciled(NotDone), Committed), now);
    assert_eq!(late(EntryState::Reconciled(Committed), NotDone), Err(EntryRefused::Fenced));
    assert_eq!(late(EntryState::Committed, Committed), Ok(Recorded::Same));
}

#[test]
fn counts_cover_effects_only() {
    let mut effects = Effects::default();
    recount(&mut effects, None, (true, EntryState::Started));
    recount(&mut effects, Some((true, EntryState::Started)), (true, EntryState::Unknown));
    assert_eq!(effects, Effects { open: 0, unknown: 1, done: 0 });
    recount(&mut effects, Some((true, EntryState::Unknown)), (true, EntryState::Reconciled(NotDone)));
    recount(&mut effects, None, (false, EntryState::Committed));
    assert_eq!(effects, Effects::default());
    // A plain step that turns out to be an effect counts from then on.
    recount(&mut effects, Some((false, EntryState::Started)), (true, EntryState::Committed));
    assert_eq!(effects, Effects { open: 0, unknown: 0, done: 1 });
}

fn unnamed(ordinal: u32, state: EntryState, met: bool, intended: bool) -> Unnamed {
    Unnamed { ordinal, state, met, intended, same_call: false }
}

#[test]
fn calls_without_a_key_find_their_own_step() {
    let mut both = [1, 2].map(|ordinal| unnamed(ordinal, EntryState::Started, true, true));
    both[1].same_call = true;
    assert_eq!(ordinal(&both, EntryReport::Started), 2, "sent again");
    assert_eq!(ordinal(&both, EntryReport::Outcome(Committed)), 2);
    both[1].met = false;
    assert_eq!(ordinal(&both, EntryReport::Started), 2, "the next one of this attempt");
    both[0].met = false;
    assert_eq!(ordinal(&both, EntryReport::Started), 1, "an earlier attempt's call is another one");
}

#[test]
fn repeated_names_get_ordinals_and_replays_start_at_one() {
    let (done, started) = (EntryReport::Outcome(Committed), EntryReport::Started);
    assert_eq!(ordinal(&[], started), 1);
    let far = |ordinal| {
        [unnamed(ordinal, EntryState::Committed, true, false), unnamed(1, EntryState::Committed, true, false)]
    };
    assert_eq!(
        (ordinal(&far(7), started), ordinal(&far(u32::MAX)[..1], started)),
        (2, 1),
        "a later one moves nobody on"
    );
    let one = |state, met| unnamed(1, state, met, true);
    assert_eq!(ordinal(&[one(EntryState::Committed, true)], started), 2);
    assert_eq!(ordinal(&[one(EntryState::Committed, false)], started), 1);
    // Two of them at once: the outcomes come in the order of the beginnings.
    let both = [one(EntryState::Started, true), unnamed(2, EntryState::Started, true, true)];
    assert_eq!(ordinal(&both, started), 3);
    assert_eq!(ordinal(&both, done), 1);
}

#[test]
fn outcomes_without_an_open_step_repeat_or_stand_alone() {
    let done = EntryReport::Outcome(Committed);
    let settled = [unnamed(1, EntryState::Committed, true, true)];
    assert_eq!(ordinal(&settled, done), 1, "the same word again");
    let alone = [unnamed(1, EntryState::Committed, true, false)];
    assert_eq!(ordinal(&alone, done), 2, "nothing was started: it is the next one");
    let doubt = [unnamed(1, EntryState::Committed, true, true), unnamed(2, EntryState::Unknown, false, true)];
    assert_eq!(ordinal(&doubt, EntryReport::Checked(NotDone)), 2);
}

#[test]
fn keys_made_from_names_are_ids_and_keep_their_ordinal() {
    let long = format!("Mail an Jürgen/{}", "x".repeat(300));
    for name in ["", "mail", "a:2", "送金", long.as_str(), &"é".repeat(500)] {
        for nth in [1, 2, u32::MAX] {
            let key = unnamed_key(name, nth);
            assert!(key.parse::<crate::ids::StepKey>().is_ok(), "{key}");
            assert_eq!(ordinal_of_key(&key, &unnamed_stem(name)), Some(nth));
        }
    }
    assert_eq!(ordinal_of_key("step:mailer", "step:mail"), None);
    assert_eq!(ordinal_of_key("step:mail:1", "step:mail"), None);
    assert_eq!(ordinal_of_key("step:mail:02", "step:mail"), None);
    assert_eq!((unnamed_stem(r"\ud800"), unnamed_stem(r"\\ud800")), ("step:@ed@a0@80".into(), "step:@5cud800".into()));
}

/// The same examples are in docs/ledger.md, for SDKs that make the keys themselves.
#[test]
fn keys_of_names_match_the_documentation() {
    assert_eq!(unnamed_key("send_mail", 1), "step:send_mail");
    assert_eq!(unnamed_key("send mail", 2), "step:send@20mail:2");
    assert_eq!(unnamed_key("送金", 1), "step:@e9@80@81@e9@87@91");
    let hash = "aa20c23e3201834050679e1d88941b9a6fed0557c9a705cb2c315e2e63fd486d";
    assert_eq!(unnamed_key(&"x".repeat(200), 3), format!("step:{}@@{hash}:3", "x".repeat(100)));
}

#[test]
fn similar_names_have_distinct_keys() {
    let names = ["送金", "返金", "a b", "a-b", "a_b", "a@20b", "a:2", "a", "@@", ""];
    let keys: std::collections::BTreeSet<String> =
        names.iter().flat_map(|name| (1..4).map(|nth| unnamed_key(name, nth))).collect();
    assert_eq!(keys.len(), names.len() * 3);
}

proptest::proptest! {
    #[test]
    fn different_steps_have_different_keys(
        one in "\\PC{0,300}|[a:@ _-]{0,4}|x{90,200}[é@]{0,40}", other in "\\PC{0,300}|[a:@ _-]{0,4}|x{90,200}[é@]{0,40}",
        nth in 1_u32..4, mth in 1_u32..4,
    ) {
        let (a, b) = (unnamed_key(&one, nth), unnamed_key(&other, mth));
        proptest::prop_assert!(a.parse::<crate::ids::StepKey>().is_ok(), "{}", a);
        proptest::prop_assert_eq!(a == b, (&one, nth) == (&other, mth), "{} {}", a, b);
    }
}

#[test]
fn status_and_outcome_round_trip() {
    for state in STATES {
        assert_eq!(EntryState::of(state.status(), state.outcome()), Some(state));
    }
    assert_eq!(EntryState::of(StepStatus::Reconciled, None), None);
    assert_eq!(EntryState::of(StepStatus::Failed, Some(EffectOutcome::NotDone)), None);
}

#[test]
fn versions_compare_only_where_both_sides_name_them() {
    let of = |pairs: &[(&str, &str)]| -> Versions {
        pairs.iter().map(|(kind, version)| ((*kind).to_owned(), Label::from(*version))).collect()
    };
    let recorded = [of(&[("prompt", "7"), ("tool", "2")]), of(&[("prompt", "7"), ("worker", "a")]), of(&[])];
    let changed = versions_changed(&recorded, &of(&[("prompt", "8"), ("tool", "2")]));
    let told: Vec<_> = changed.iter().map(|c| (c.kind.as_str(), c.recorded.as_str(), c.now.as_str())).collect();
    assert_eq!(told, [("prompt", "7", "8")]);
}

#[test]
fn plain_steps_are_not_counted() {
    let counted = |effect, state| {
        let mut effects = Effects::default();
        recount(&mut effects, None, (effect, state));
        (effects.open, effects.unknown, effects.done)
    };
    for state in STATES {
        assert_eq!(counted(false, state), (0, 0, 0), "{state:?}");
    }
    assert_eq!(counted(true, EntryState::Started), (1, 0, 0));
    assert_eq!(counted(true, EntryState::Unknown), (0, 1, 0));
    assert_eq!(counted(true, EntryState::Committed), (0, 0, 1));
}

#[test]
fn only_undone_entries_release_their_key() {
    let held: Vec<bool> = STATES.map(EntryState::holds).to_vec();
    assert_eq!(held, [true, true, false, true, true, false]);
}

#[test]
fn workers_cannot_report_unknown_or_reconciled() {
    let said = StepStatus::ALL.iter().map(|status| (EntryReport::of(*status, false), EntryReport::of(*status, true)));
    let known: Vec<_> = said.filter(|(told, _)| told.is_some()).collect();
    let both = |outcome| (Some(EntryReport::Outcome(outcome)), Some(EntryReport::Checked(outcome)));
    assert_eq!(known, [(Some(EntryReport::Started), Some(EntryReport::Started)), both(Committed), both(NotDone)]);
    assert_eq!(StepStatus::ALL.len(), 5);
}

#[test]
fn the_end_of_an_attempt_settles_its_own_entries() {
    let end = |state, report| apply(Some(&entry(state)), report, By::End { epoch: MINE });
    assert_eq!(end(EntryState::Started, EntryReport::Outcome(Committed)), Ok(Recorded::Now(EntryState::Committed)));
    assert_eq!(end(EntryState::Started, EntryReport::Outcome(NotDone)), Ok(Recorded::Now(EntryState::Failed)));
    assert_eq!(end(EntryState::Failed, EntryReport::Outcome(Committed)), Ok(Recorded::Now(EntryState::Committed)));
    let plain = Entry { effect: false, ..entry(EntryState::Started) };
    let again = apply(Some(&plain), EntryReport::Started, By::Live { epoch: 8 });
    assert_eq!(again, Ok(Recorded::Now(EntryState::Started)), "a plain step of a lease that is over");
}

#[test]
fn long_names_are_hashed() {
    let stem = |bytes: usize| unnamed_stem(&"a".repeat(bytes));
    assert!(stem(180).ends_with(&"a".repeat(180)) && !stem(180).contains("@@"));
    assert!(stem(181).contains("@@"));
}
