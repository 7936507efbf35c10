//! Patterns, changes and keys over rows put in by hand.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{ChangesAnswer, PatternState, PatternsPage, Role};
use rusqlite::params;

use crate::shared::changes::changes;
use crate::shared::keys::{key_by_hash, list_keys};
use crate::shared::patterns::{list_patterns, one_pattern};
use crate::shared::reader::ready;
use crate::sqlite::rows::keys::{insert_key, revoke_key};
use crate::sqlite::tests::fixture::{Fixture, Seed, now, tenant};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::patterns::PatternsCall;
use redrive_engine::model::{KeyRecord, TenantScope};
use redrive_engine::runs::document::position;

fn with_patterns() -> Fixture {
    let fixture = Fixture::new();
    for (owner, template, seen) in [("acme", "a", 30), ("acme", "bb", 20), ("globex", "a", 10), ("globex", "ccc", 40)] {
        let id = fixture.pattern(owner, template);
        fixture
            .conn
            .execute("UPDATE patterns SET last_seen = ?1, group_seen = ?1, count = 3 WHERE id = ?2", [seen, id])
            .unwrap();
        let alias = "INSERT INTO pattern_alias SELECT tenant, fp_hash, fp_version, id FROM patterns WHERE id = ?";
        fixture.conn.execute(alias, [id]).unwrap();
    }
    fixture
}

fn listed(fixture: &Fixture, scope: &TenantScope, limit: u32, cursor: Option<String>) -> Result<PatternsPage> {
    ready(list_patterns(&fixture.conn, scope, &PatternsCall { cursor, ..PatternsCall::first(limit) }, now()))
}

fn templates(page: &PatternsPage) -> Vec<&str> {
    page.patterns.iter().map(|pattern| pattern.template.as_str()).collect()
}

#[test]
fn a_tenant_sees_its_own_patterns_the_last_seen_first() {
    let fixture = with_patterns();
    let page = listed(&fixture, &tenant("acme"), 50, None).unwrap();
    assert_eq!(templates(&page), ["a", "bb"]);
    assert_eq!(page.patterns[0].id, "pacme1");
    assert!(listed(&fixture, &tenant("nobody"), 50, None).unwrap().patterns.is_empty());
}

#[test]
fn whoever_spans_tenants_sees_one_row_for_each_fingerprint() {
    let fixture = with_patterns();
    let resolved = position(PatternState::ALL, &PatternState::Resolved);
    fixture.conn.execute("UPDATE patterns SET state = ? WHERE public_id = 'pacme1'", [resolved]).unwrap();
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = listed(&fixture, &TenantScope::All, 1, cursor).unwrap();
        seen.extend(page.patterns);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let shown: Vec<_> = seen.iter().map(|p| (p.template.as_str(), p.count, p.tenants.len(), p.state)).collect();
    let new = PatternState::New;
    assert_eq!(shown, [("ccc", 3, 1, new), ("a", 6, 2, new), ("bb", 3, 1, new)]);
    assert_eq!(seen[1].id, Fixture::fingerprint("a"));
    assert_eq!(ready(one_pattern(&fixture.conn, &TenantScope::All, &seen[1].id, now())).unwrap(), seen[1]);
}

#[test]
fn a_pattern_is_found_by_id_or_fingerprint() {
    let fixture = with_patterns();
    let find =
        |scope: &TenantScope, id: &str| ready(one_pattern(&fixture.conn, scope, id, now())).map(|pattern| pattern.id);
    let fingerprint = Fixture::fingerprint("a");
    assert_eq!(find(&tenant("globex"), &fingerprint).unwrap(), "pglobex1");
    assert_eq!(find(&tenant("globex"), "pglobex1").unwrap(), "pglobex1");
    assert_eq!(find(&TenantScope::All, "pglobex1").unwrap(), "pglobex1");
    for (scope, id) in [(tenant("acme"), "pglobex1"), (tenant("nobody"), "pacme1"), (TenantScope::All, "p?")] {
        assert!(matches!(find(&scope, id).map_err(Error::from), Err(Error::NotFound("pattern"))));
    }
    let others = listed(&fixture, &TenantScope::All, 1, None).unwrap().next_cursor;
    assert!(matches!(listed(&fixture, &tenant("acme"), 1, others).map_err(Error::from), Err(Error::BadCursor)));
}

fn commit(fixture: &Fixture, runs: &[i64]) {
    let bytes: Vec<u8> = runs.iter().flat_map(|run| run.to_le_bytes()).collect();
    fixture.conn.execute("INSERT INTO changes (at, runs) VALUES (0, ?)", params![bytes]).unwrap();
}

fn moved(answer: &ChangesAnswer) -> Vec<&str> {
    answer.changes.iter().map(|change| change.run_id.as_str()).collect()
}

#[test]
fn changes_list_each_run_once_with_its_current_state() {
    let globex = Seed { tenant: "globex", state: StateName::Running, ..Seed::default() };
    let fixture = Fixture::with([Seed::default(), Seed::default(), globex]);
    let look = |scope: &TenantScope, since: Option<&str>| ready(changes(&fixture.conn, scope, since)).unwrap();
    let start = look(&TenantScope::All, None);
    let own = look(&tenant("globex"), None);
    assert!(start.changes.is_empty() && !start.reset);
    commit(&fixture, &[1, 2]);
    commit(&fixture, &[3, 1]);
    let all = look(&TenantScope::All, Some(&start.next));
    assert_eq!((moved(&all), all.reset), (vec!["run-2", "run-1", "run-3"], false));
    assert_eq!(moved(&look(&tenant("globex"), Some(&own.next))), ["run-3"]);
    assert!(look(&TenantScope::All, Some(&all.next)).changes.is_empty());
    assert_eq!(look(&TenantScope::All, None).next, all.next);
}

#[test]
fn a_change_cursor_older_than_the_log_asks_for_a_reload() {
    let fixture = Fixture::with([Seed::default()]);
    let old = ready(changes(&fixture.conn, &TenantScope::All, None)).unwrap().next;
    commit(&fixture, &[1]);
    commit(&fixture, &[1]);
    let kept = ready(changes(&fixture.conn, &TenantScope::All, Some(&old))).unwrap();
    assert!(!kept.reset);
    fixture.conn.execute("DELETE FROM changes WHERE seq = 1", []).unwrap();
    let reset = ready(changes(&fixture.conn, &TenantScope::All, Some(&old))).unwrap();
    assert_eq!((reset.reset, &reset.next), (true, &kept.next));
    fixture.conn.execute("DELETE FROM changes", []).unwrap();
    assert!(ready(changes(&fixture.conn, &TenantScope::All, Some(&old))).unwrap().reset);
    assert!(!ready(changes(&fixture.conn, &TenantScope::All, Some(&kept.next))).unwrap().reset);
    assert!(matches!(
        ready(changes(&fixture.conn, &TenantScope::All, Some("1"))).map_err(Error::from),
        Err(Error::BadCursor)
    ));
}

#[test]
fn changes_are_paged_at_about_a_thousand_runs() {
    let fixture = Fixture::with((0..1_500).map(|_| Seed::default()));
    let start = ready(changes(&fixture.conn, &TenantScope::All, None)).unwrap().next;
    for first in [1, 501, 1_001] {
        commit(&fixture, &(first..first + 500).collect::<Vec<i64>>());
    }
    let one = ready(changes(&fixture.conn, &TenantScope::All, Some(&start))).unwrap();
    let two = ready(changes(&fixture.conn, &TenantScope::All, Some(&one.next))).unwrap();
    assert_eq!((one.changes.len(), two.changes.len()), (1_000, 500));
}

#[test]
fn a_key_is_found_by_its_hash_and_revoked_once() {
    let fixture = Fixture::new();
    let key = KeyRecord {
        id: "k1".into(),
        lineage: "k1".into(),
        hash: [7; 32],
        role: Role::Tenant,
        tenant: Some("acme".parse().unwrap()),
        note: Some("laptop".into()),
        created_at: now(),
        expires_at: None,
        revoked_at: None,
    };
    insert_key(&fixture.conn, &key).unwrap();
    assert_eq!(ready(key_by_hash(&fixture.conn, &[7; 32])).unwrap(), Some(key.clone()));
    assert_eq!(ready(key_by_hash(&fixture.conn, &[8; 32])).unwrap(), None);
    assert!(revoke_key(&fixture.conn, "k1", now()).unwrap());
    assert!(revoke_key(&fixture.conn, "k1", Timestamp::from_millis(1)).unwrap());
    assert!(!revoke_key(&fixture.conn, "k2", now()).unwrap());
    assert_eq!(ready(list_keys(&fixture.conn)).unwrap(), [KeyRecord { revoked_at: Some(now()), ..key }]);
}
