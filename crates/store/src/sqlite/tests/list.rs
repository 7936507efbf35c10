//! Lists against a model of them: filter everything, sort it, cut it.

use proptest::prelude::*;
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{RunsPage, Severity, Sort};

use crate::shared::reader::ready;
use crate::shared::runs::list_within;
use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed, now, tenant};
use redrive_engine::error::Error;
use redrive_engine::model::{PageCall, RunFilter, TenantScope};

const TEMPLATES: [&str; 3] = ["Request timed out after # ms", "Card Überdrawn", "timed in"];

fn page(sort: Sort, limit: u32, cursor: Option<String>) -> PageCall {
    PageCall { sort, limit, cursor, count: true }
}

fn first(fixture: &Fixture, scope: &TenantScope, filter: &RunFilter) -> RunsPage {
    ready(list_within(&fixture.conn, scope, filter, &page(Sort::NewestFirst, 50, None), now(), 20_000)).unwrap()
}

fn names(page: &RunsPage) -> Vec<String> {
    page.runs.iter().map(|run| run.run_id.to_string()).collect()
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let one = (
        (prop::sample::select(vec!["acme", "globex", "initech"]), prop::sample::select(vec!["default", "mail"])),
        (prop::sample::select(StateName::ALL), prop::sample::select(DeadBecause::ALL), any::<bool>(), 0..4_i64),
        prop::sample::select(vec![None, Some(Reason::Timeout), Some(Reason::Bug)]),
        prop::sample::select(Severity::ALL),
        prop::sample::select(vec![None, Some(NOW_MS - 1), Some(NOW_MS + 1)]),
        prop::sample::select(vec![None, Some("c-1"), Some("c-2")]),
        prop::option::of(prop::sample::select(&TEMPLATES[..])),
    );
    let seed =
        one.prop_map(|(place, (state, because, held, due), reason, severity, deferred_until, customer, template)| {
            let (tenant, queue) = place;
            let due = NOW_MS + due;
            Seed {
                tenant,
                queue,
                state,
                because,
                held,
                due,
                reason,
                severity,
                deferred_until,
                customer,
                template,
                ..Seed::default()
            }
        });
    prop::collection::vec(seed, 0..60).prop_map(|mut seeds| {
        for (n, seed) in (0..).zip(&mut seeds) {
            seed.received_at = NOW_MS + n / 3;
        }
        seeds
    })
}

fn some<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = Vec<T>> + use<T> {
    let values = values.to_vec();
    let most = values.len().min(3);
    prop_oneof![2 => Just(Vec::new()), 1 => prop::sample::subsequence(values, 1..=most)]
}

fn filters() -> impl Strategy<Value = RunFilter> {
    let time = || prop::option::weighted(0.2, (0..22_i64).prop_map(|n| Timestamp::from_millis(NOW_MS + n)));
    let of = |texts: &'static [&'static str]| prop::option::weighted(0.3, prop::sample::select(texts));
    let queues = some(&["default".parse().unwrap(), "mail".parse().unwrap(), "none".parse().unwrap()]);
    let patterns =
        some(&[Fixture::fingerprint(TEMPLATES[0]), Fixture::fingerprint(TEMPLATES[1]), "pacme28".to_owned()]);
    (
        (of(&["acme", "globex", "nobody"]), some(StateName::ALL), queues, some(&[Reason::Timeout, Reason::Bug])),
        (patterns, some(DeadBecause::ALL), some(Severity::ALL), prop::option::weighted(0.2, any::<bool>())),
        (time(), time(), of(&["run-1", "c-1", "c-", "timed", "TIMED out", "über", "Run", " "])),
    )
        .prop_map(
            |((tenant, states, queues, reasons), (patterns, dead_because, severities, held), (since, until, q))| {
                let tenant = tenant.map(|name| name.parse().unwrap());
                let q = q.map(str::to_owned);
                RunFilter {
                    tenant,
                    states,
                    queues,
                    reasons,
                    patterns,
                    dead_because,
                    severities,
                    held,
                    since,
                    until,
                    q,
                    ..RunFilter::default()
                }
            },
        )
}

fn lists<T: PartialEq>(list: &[T], value: &T) -> bool {
    list.is_empty() || list.contains(value)
}

/// The rules of a filter, once more and plainly.
fn matches(n: usize, seed: &Seed, scope: &TenantScope, filter: &RunFilter, sort: Sort) -> bool {
    let held = seed.state == StateName::Scheduled && seed.held;
    let is_tenant = |name: &str| seed.tenant == name;
    let pattern = |wanted: &String| {
        seed.template.is_some_and(|template| {
            *wanted == Fixture::fingerprint(template) || *wanted == format!("p{}{}", seed.tenant, template.len())
        })
    };
    let q = filter.q.as_deref().filter(|q| !q.trim().is_empty());
    let named = |q: &str| format!("run-{n}").starts_with(q) || seed.customer.is_some_and(|c| c.starts_with(q));
    let worded = |q: &str| {
        let template = seed.template.map(str::to_lowercase);
        template.is_some_and(|template| q.split_whitespace().all(|word| template.contains(&word.to_lowercase())))
    };
    let open_dead = matches!(seed.state, StateName::Dead | StateName::Review);
    let deferred = open_dead && seed.deferred_until.is_some_and(|until| until > NOW_MS);
    (match scope {
        TenantScope::All => true,
        TenantScope::One(own) => is_tenant(own.as_str()),
    }) && filter.tenant.as_ref().is_none_or(|name| is_tenant(name.as_str()))
        && lists(&filter.states, &seed.state)
        && (filter.queues.is_empty() || filter.queues.iter().any(|queue| queue.as_str() == seed.queue))
        && (filter.reasons.is_empty() || seed.reason.as_ref().is_some_and(|reason| filter.reasons.contains(reason)))
        && (filter.patterns.is_empty() || filter.patterns.iter().any(pattern))
        && (filter.dead_because.is_empty()
            || seed.state == StateName::Dead && lists(&filter.dead_because, &seed.because))
        && lists(&filter.severities, &seed.severity)
        && filter.held.is_none_or(|wanted| wanted == held)
        && filter.since.is_none_or(|since| seed.received_at >= since.as_millis())
        && filter.until.is_none_or(|until| seed.received_at < until.as_millis())
        && q.is_none_or(|q| named(q) || worded(q))
        && !(filter.states.is_empty() && deferred)
        && (sort != Sort::Due || seed.due().is_some())
}

fn expected(seeds: &[Seed], scope: &TenantScope, filter: &RunFilter, sort: Sort) -> Vec<String> {
    let mut found: Vec<(usize, &Seed)> =
        (1..).zip(seeds).filter(|(n, seed)| matches(*n, seed, scope, filter, sort)).collect();
    match sort {
        Sort::Received => {}
        Sort::NewestFirst => found.reverse(),
        Sort::Due => found.sort_by_key(|(n, seed)| (seed.due(), *n)),
    }
    found.into_iter().map(|(n, _)| format!("run-{n}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn paging_visits_each_match_once_and_the_total_agrees(
        seeds in seeds(), filter in filters(), sort in prop::sample::select(Sort::ALL),
        one in any::<bool>(), limit in 1..9_u32, looks in 1..40_usize,
    ) {
        let fixture = Fixture::with(seeds.clone());
        let scope = if one { tenant("acme") } else { TenantScope::All };
        let expected = expected(&seeds, &scope, &filter, sort);
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = ready(list_within(&fixture.conn, &scope, &filter, &page(sort, limit, cursor), now(), looks)).unwrap();
            prop_assert_eq!((page.total, page.total_capped), (u64::try_from(expected.len()).ok(), false));
            listed.extend(names(&page));
            cursor = page.next_cursor;
            if cursor.is_none() { break }
        }
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn runs_leaving_between_pages_hide_and_repeat_nothing(
        seeds in seeds(), filter in filters(), sort in prop::sample::select(Sort::ALL),
        limit in 1..5_u32, leaving in prop::collection::vec(1..60_i64, 0..20),
    ) {
        let fixture = Fixture::with(seeds.clone());
        // Discarded runs match again where that state is asked for.
        let filter = RunFilter { states: filter.states.into_iter().filter(|s| *s != StateName::Discarded).collect(), ..filter };
        prop_assume!(!filter.states.is_empty());
        let before = expected(&seeds, &TenantScope::All, &filter, sort);
        let (mut listed, mut cursor, mut left) = (Vec::new(), None, leaving.iter());
        loop {
            let page = ready(list_within(&fixture.conn, &TenantScope::All, &filter, &page(sort, limit, cursor), now(), 7)).unwrap();
            listed.extend(names(&page));
            cursor = page.next_cursor;
            if cursor.is_none() { break }
            if let Some(run) = left.next() { fixture.discard(*run) }
        }
        let stayed = |name: &&String| !leaving.iter().any(|run| **name == format!("run-{run}"));
        let kept: Vec<&String> = before.iter().filter(stayed).collect();
        prop_assert_eq!(listed.iter().filter(stayed).collect::<Vec<_>>(), kept);
        let mut once = listed.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), listed.len());
    }
}

#[test]
fn a_cursor_of_another_filter_or_tenant_is_refused() {
    let fixture = Fixture::with((0..5).map(|_| Seed::default()));
    let filter = RunFilter::default();
    let list = |scope: &TenantScope, filter: &RunFilter, sort, cursor| {
        ready(list_within(&fixture.conn, scope, filter, &page(sort, 2, cursor), now(), 100))
    };
    let cursor = list(&tenant("acme"), &filter, Sort::NewestFirst, None).unwrap().next_cursor;
    assert!(cursor.is_some());
    let dead = RunFilter { states: vec![StateName::Dead], ..RunFilter::default() };
    assert!(list(&tenant("acme"), &filter, Sort::NewestFirst, cursor.clone()).is_ok());
    for refused in [
        list(&tenant("acme"), &dead, Sort::NewestFirst, cursor.clone()),
        list(&tenant("acme"), &filter, Sort::Received, cursor.clone()),
        list(&tenant("globex"), &filter, Sort::NewestFirst, cursor.clone()),
        list(&TenantScope::All, &filter, Sort::NewestFirst, cursor),
        list(&tenant("acme"), &filter, Sort::NewestFirst, Some("garbage".into())),
    ] {
        assert!(matches!(refused.map_err(Error::from), Err(Error::BadCursor)));
    }
}

#[test]
fn a_tenant_that_asks_for_anothers_runs_gets_none() {
    let fixture = Fixture::with(["acme", "globex"].map(|tenant| Seed { tenant, ..Seed::default() }));
    let others = RunFilter { tenant: Some("globex".parse().unwrap()), ..RunFilter::default() };
    let page = first(&fixture, &tenant("acme"), &others);
    assert_eq!((names(&page), page.total), (Vec::new(), Some(0)));
    assert_eq!(names(&first(&fixture, &TenantScope::All, &others)), ["run-2"]);
}

#[test]
fn a_bounded_search_returns_a_short_page_and_a_cursor() {
    let mut seeds = vec![Seed::default(); 100];
    seeds[3].customer = Some("c-9");
    let fixture = Fixture::with(seeds);
    let filter = RunFilter { q: Some("c-9".into()), ..RunFilter::default() };
    let call = |cursor| {
        ready(list_within(&fixture.conn, &TenantScope::All, &filter, &page(Sort::NewestFirst, 5, cursor), now(), 90))
    };
    let short = call(None).unwrap();
    assert!(short.runs.is_empty() && short.next_cursor.is_some());
    let rest = call(short.next_cursor).unwrap();
    assert_eq!((names(&rest), rest.next_cursor), (vec!["run-4".to_owned()], None));
}

#[test]
fn beyond_ten_thousand_only_the_kept_counters_are_exact() {
    let fixture = Fixture::new();
    for _ in 0..10_050 {
        fixture.add(&Seed::default());
    }
    fixture.recount();
    let dead = RunFilter { states: vec![StateName::Dead], ..RunFilter::default() };
    let exact = first(&fixture, &tenant("acme"), &dead);
    assert_eq!((exact.total, exact.total_capped), (Some(10_050), false));
    let counted = first(&fixture, &tenant("acme"), &RunFilter { severities: vec![Severity::Normal], ..dead.clone() });
    assert_eq!((counted.total, counted.total_capped), (Some(10_000), true));
    let because = first(&fixture, &tenant("acme"), &RunFilter { dead_because: vec![DeadBecause::Exhausted], ..dead });
    assert_eq!((because.total, because.total_capped), (Some(10_000), true));
}

#[test]
fn an_unknown_state_number_is_an_error_not_a_panic() {
    let fixture = Fixture::with([Seed::default()]);
    fixture.conn.execute("UPDATE runs SET state = 99", []).unwrap();
    let page = ready(list_within(
        &fixture.conn,
        &TenantScope::All,
        &RunFilter::default(),
        &page(Sort::Received, 1, None),
        now(),
        9,
    ));
    assert!(matches!(page.map_err(Error::from), Err(Error::Unexpected(_))));
}
