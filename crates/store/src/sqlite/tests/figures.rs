//! Figures over rows put in by hand.

use redrive_core::policy::Limits;
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::time::{HOUR_MS, MINUTE_MS, Timestamp};
use redrive_core::verdict::DeadBecause;
use rusqlite::params;

use crate::shared::figures::{health, list_tenants, tenant_health};
use crate::shared::hours::stats;
use crate::shared::queues::{list_queues, one_queue};
use crate::shared::reader::ready;
use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed, now, tenant};
use redrive_engine::error::Error;
use redrive_engine::model::{HourlyKind, StatsCall, TenantScope};

fn dead(because: DeadBecause) -> Seed {
    Seed { because, ..Seed::default() }
}

fn in_state(state: StateName) -> Seed {
    Seed { state, ..Seed::default() }
}

fn happened(fixture: &Fixture, owner: &str, hours_ago: u64, kind: HourlyKind, reason: &str, n: i64) {
    let hour = now().minus_ms(hours_ago * HOUR_MS).hour().as_millis();
    let (owner, queue) = (fixture.tenant(owner), fixture.queue("default"));
    let of = |wanted| if wanted == kind { n } else { 0 };
    let [started, failed, retried, dead, recovered, succeeded] = *HourlyKind::ALL else { unreachable!() };
    let insert = "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET failed = failed + excluded.failed, dead = dead + excluded.dead,
            recovered = recovered + excluded.recovered";
    let counted = [started, failed, retried, dead, recovered, succeeded].map(of);
    let [a, b, c, d, e, f] = counted;
    fixture.conn.execute(insert, params![hour, owner, queue, reason, a, b, c, d, e, f]).unwrap();
}

#[test]
fn tenant_health_counts_its_open_runs_and_last_day() {
    let held = Seed { held: true, ..in_state(StateName::Scheduled) };
    let fixture = Fixture::with([
        dead(DeadBecause::Exhausted),
        dead(DeadBecause::Poison),
        dead(DeadBecause::Rejected),
        in_state(StateName::Review),
        in_state(StateName::Scheduled),
        held,
        Seed { tenant: "globex", ..dead(DeadBecause::Poison) },
    ]);
    happened(&fixture, "acme", 0, HourlyKind::Recovered, "", 2);
    happened(&fixture, "acme", 23, HourlyKind::Dead, "", 1);
    happened(&fixture, "acme", 24, HourlyKind::Recovered, "", 50);
    happened(&fixture, "globex", 0, HourlyKind::Recovered, "", 70);
    let seen = "UPDATE patterns SET last_seen = ?2, group_seen = ?3 WHERE id = ?1";
    fixture.conn.execute(seen, [fixture.pattern("acme", "older"), 3, 4]).unwrap();
    fixture.conn.execute(seen, [fixture.pattern("acme", "newest"), 5, 4]).unwrap();
    fixture.conn.execute(seen, [fixture.pattern("globex", "another's"), 9, 9]).unwrap();
    let health = ready(tenant_health(&fixture.conn, &"acme".parse().unwrap(), Limits::default(), now())).unwrap();
    insta::assert_json_snapshot!(health, @r#"
    {
      "pending_retries": 2,
      "held": 1,
      "active_poison": 2,
      "escalated": 4,
      "dead": 3,
      "recovered_24h": 2,
      "last_failure_at": "1970-01-01T00:00:00.005Z",
      "recovery_rate_pct": 66.7
    }
    "#);
    let unheard = ready(tenant_health(&fixture.conn, &"nobody".parse().unwrap(), Limits::default(), now()));
    assert!(matches!(unheard.map_err(Error::from), Err(Error::NotFound("tenant"))));
}

#[test]
fn tenants_come_by_name_a_page_at_a_time() {
    let owners = ["globex", "acme", "initech"];
    let fixture = Fixture::with(owners.map(|tenant| Seed { tenant, ..Seed::default() }));
    let first = ready(list_tenants(&fixture.conn, 2, None)).unwrap();
    let second = ready(list_tenants(&fixture.conn, 2, first.next_cursor.as_deref())).unwrap();
    let names: Vec<String> = first.tenants.iter().chain(&second.tenants).map(|view| view.tenant.to_string()).collect();
    assert_eq!(names, ["acme", "globex", "initech"]);
    assert_eq!(second.next_cursor, None);
    assert_eq!(first.tenants[0].dead, 1);
    assert!(matches!(ready(list_tenants(&fixture.conn, 2, Some("x"))).map_err(Error::from), Err(Error::BadCursor)));
}

fn due_ago(queue: &'static str, tenant: &'static str, minutes: u64) -> Seed {
    let due = now().minus_ms(minutes * MINUTE_MS).as_millis();
    Seed { queue, tenant, due, ..in_state(StateName::Scheduled) }
}

#[test]
fn health_names_the_queues_whose_due_work_nobody_takes() {
    let fixture = Fixture::with([
        due_ago("unserved", "acme", 6),
        due_ago("unserved", "globex", 9),
        due_ago("served", "acme", 60),
        due_ago("fresh", "acme", 4),
        due_ago("by-caller", "acme", 60),
    ]);
    let called = |queue: &str, tenant: i64, call: i64| {
        let note = "INSERT INTO lease_calls (queue, tenant, at) SELECT id, ?2, ?3 FROM queues WHERE name = ?1";
        fixture.conn.execute(note, params![queue, tenant, call]).unwrap();
    };
    let set = |queue: &str, settings: &str, call: i64| {
        let update = "UPDATE queues SET settings = ?2 WHERE name = ?1";
        fixture.conn.execute(update, params![queue, settings]).unwrap();
        called(queue, 0, call);
    };
    set("unserved", r#"{"owner":"team-a"}"#, NOW_MS - 400_000);
    set("served", "{}", NOW_MS - 60_000);
    set("by-caller", r#"{"retry_by":"caller"}"#, 0);
    let named = |scope: &TenantScope| {
        let health = ready(health(&fixture.conn, scope, now())).unwrap();
        assert_eq!(health.status, "attention");
        let ownerless: Vec<String> = health.queues_without_owner.iter().map(ToString::to_string).collect();
        let alerts = health.queues_without_workers.into_iter();
        let alerts: Vec<_> = alerts.map(|a| (a.queue.to_string(), now().since(a.oldest_due_at) / MINUTE_MS)).collect();
        (alerts, ownerless.join(" "), health.scheduled)
    };
    assert_eq!(named(&TenantScope::All), (vec![("unserved".into(), 9)], "by-caller fresh served".into(), 5));
    assert_eq!(named(&tenant("acme")), (vec![("unserved".into(), 6)], "by-caller fresh served".into(), 4));
    assert_eq!(named(&tenant("globex")), (vec![("unserved".into(), 9)], String::new(), 1));
    // A tenant's own workers serve nobody else.
    called("unserved", fixture.tenant("acme"), NOW_MS - 1_000);
    assert_eq!(named(&TenantScope::All).0, [("unserved".into(), 9)]);
    assert_eq!(named(&tenant("globex")).0, [("unserved".into(), 9)]);
    assert!(ready(health(&fixture.conn, &tenant("acme"), now())).unwrap().queues_without_workers.is_empty());
    let nobody = ready(health(&fixture.conn, &tenant("nobody"), now())).unwrap();
    assert_eq!((nobody.status.as_str(), nobody.scheduled), ("ok", 0));
    assert!(nobody.queues_without_workers.is_empty() && nobody.queues_without_owner.is_empty());
}

#[test]
fn stats_fold_the_hours_and_stay_within_the_scope() {
    let fixture = Fixture::with([Seed::default(), Seed { tenant: "globex", ..Seed::default() }]);
    happened(&fixture, "acme", 1, HourlyKind::Failed, "timeout", 3);
    happened(&fixture, "acme", 1, HourlyKind::Failed, "bug", 4);
    happened(&fixture, "acme", 30, HourlyKind::Failed, "bug", 100);
    happened(&fixture, "globex", 1, HourlyKind::Failed, "timeout", 10);
    let day = ready(stats(&fixture.conn, &tenant("acme"), &StatsCall::default(), now())).unwrap();
    assert_eq!(day.hours.len(), 24);
    assert_eq!(day.hours[22].failed, 7);
    assert_eq!(day.hours.iter().map(|point| point.failed).sum::<u64>(), 7);
    assert_eq!(day.reasons, [(Reason::Bug, 4), (Reason::Timeout, 3)]);
    assert_eq!(day.states[2], (StateName::Dead, 1));
    let all = ready(stats(&fixture.conn, &TenantScope::All, &StatsCall::default(), now())).unwrap();
    assert_eq!(all.reasons, [(Reason::Timeout, 13), (Reason::Bug, 4)]);
    assert_eq!(all.states[2], (StateName::Dead, 2));
}

#[test]
fn stats_reach_back_31_days_and_no_further() {
    let fixture = Fixture::with([Seed::default()]);
    let call = StatsCall { since: Some(Timestamp::default()), ..StatsCall::default() };
    let long = ready(stats(&fixture.conn, &TenantScope::All, &call, now())).unwrap();
    assert_eq!(long.hours.len(), 31 * 24);
    let call = StatsCall { queue: Some("none".parse().unwrap()), ..StatsCall::default() };
    assert!(matches!(
        ready(stats(&fixture.conn, &TenantScope::All, &call, now())).map_err(Error::from),
        Err(Error::NotFound("queue"))
    ));
}

#[test]
fn queues_are_shown_with_what_stands_in_them() {
    let fixture = Fixture::with([
        dead(DeadBecause::Manual),
        Seed { tenant: "globex", ..dead(DeadBecause::Manual) },
        Seed { queue: "mail", ..in_state(StateName::Running) },
    ]);
    fixture.conn.execute(r#"UPDATE queues SET settings = '{"owner":"post"}' WHERE name = 'mail'"#, []).unwrap();
    let queues = ready(list_queues(&fixture.conn, 500, None)).unwrap().queues;
    let shown: Vec<_> = queues.iter().map(|q| (q.name.as_str(), q.dead, q.running, q.ownerless)).collect();
    assert_eq!(shown, [("default", 2, 0, true), ("mail", 0, 1, false)]);
    assert_eq!(ready(one_queue(&fixture.conn, &"mail".parse().unwrap())).unwrap(), queues[1]);
    assert!(matches!(
        ready(one_queue(&fixture.conn, &"none".parse().unwrap())).map_err(Error::from),
        Err(Error::NotFound("queue"))
    ));
}
