//! Every page and form with every role and an object that is own, another tenant's or absent, from the table of pages.
//! Another tenant's object has to look absent. A page without a row here fails.

use std::collections::BTreeMap;

use http::Method;
use redrive_server::ui::{self, ForWhom};

use crate::pages::{log_in, send, visit};
use crate::world::{Answered, World};

/// What a page is about.
struct Thing {
    tenant: &'static str,
    run: &'static str,
    pattern: String,
}

impl Thing {
    fn path(&self, path: &str) -> String {
        let names = [("{tenant}", self.tenant), ("{run_id}", self.run), ("{id}", &self.pattern)];
        let path = names.iter().fold(path.to_owned(), |path, (part, name)| path.replace(part, name));
        path.replace("{name}", "default").replace("{attempt}", "1")
    }
}

/// A valid form for each; pages need none.
fn rows() -> BTreeMap<(&'static str, &'static str), &'static str> {
    BTreeMap::from([
        (("GET", "/"), ""),
        (("GET", "/patterns"), ""),
        (("GET", "/patterns/{id}"), ""),
        (("GET", "/runs"), ""),
        (("GET", "/runs/{tenant}/{run_id}"), ""),
        (("GET", "/runs/{tenant}/{run_id}/fix"), ""),
        (("GET", "/runs/{tenant}/{run_id}/payload"), ""),
        (("GET", "/runs/{tenant}/{run_id}/attempts/{attempt}"), ""),
        (("GET", "/operations"), ""),
        (("GET", "/operations/new"), ""),
        (("GET", "/operations/{id}"), ""),
        (("GET", "/tenants"), ""),
        (("GET", "/tenants/{tenant}"), ""),
        (("GET", "/queues"), ""),
        (("GET", "/queues/{name}"), ""),
        (("GET", "/settings"), ""),
        (("POST", "/runs/{tenant}/{run_id}/fix"), "payload=1"),
        (("POST", "/runs/{tenant}/{run_id}/replay"), ""),
        (("POST", "/runs/{tenant}/{run_id}/reconcile"), "key=theirs:charge&outcome=committed"),
        (("POST", "/runs/{tenant}/{run_id}/cancel"), ""),
        (("POST", "/runs/{tenant}/{run_id}/resolve"), ""),
        (("POST", "/runs/{tenant}/{run_id}/discard"), ""),
        (("POST", "/runs/{tenant}/{run_id}/note"), "reason=n"),
        (("POST", "/runs/{tenant}/{run_id}/review"), ""),
        (("POST", "/runs/{tenant}/{run_id}/approve"), "plan_hash=h"),
        (("POST", "/runs/{tenant}/{run_id}/reject"), ""),
        (("POST", "/runs/{tenant}/{run_id}/defer"), "until=2099-01-01T00:00Z"),
        (("POST", "/runs/{tenant}/{run_id}/reassign"), "agent=a"),
        (("POST", "/runs/{tenant}/{run_id}/assign"), "to=ops"),
        (("POST", "/runs/{tenant}/{run_id}/merge"), "into=elsewhere"),
        (("POST", "/runs/{tenant}/{run_id}/unmerge"), ""),
        (("POST", "/patterns/{id}/acknowledge"), ""),
        (("POST", "/patterns/{id}/resolve"), "kind=worker&version=v2"),
        (("POST", "/patterns/{id}/mute"), ""),
        (("POST", "/patterns/{id}/assign"), "to=ops"),
        (("POST", "/patterns/{id}/note"), "reason=n"),
        (("POST", "/patterns/{id}/merge"), "into=1-0000000000000000"),
        (("POST", "/patterns/{id}/unmerge"), ""),
        (("POST", "/operations/new"), "action=resolve&all=yes&filter.q=no-such"),
        (("POST", "/operations"), "action=resolve&filter.q=no-such&reason=r"),
        (("POST", "/operations/{id}/start"), ""),
        (("POST", "/operations/{id}/pause"), ""),
        (("POST", "/operations/{id}/resume"), ""),
        (("POST", "/operations/{id}/cancel"), ""),
        (("POST", "/tenants/{tenant}/breaker"), "action=close&reason=r"),
        (("POST", "/queues/{name}"), "owner=ops"),
        (("POST", "/settings/test"), "text=Request+timed+out"),
        (("POST", "/settings/keys"), "role=tenant"),
        (("POST", "/settings/keys/{id}/revoke"), ""),
    ])
}

async fn ask(world: &World, method: &Method, path: &str, cookie: &str, form: &str) -> Answered {
    match *method {
        Method::POST => send(world, path, cookie, form).await,
        _ => visit(world, method.clone(), path, cookie).await,
    }
}

async fn pattern_of(world: &World, run: &str, tenant: &str) -> String {
    let shown = world.get(&format!("/v1/runs/{run}?tenant={tenant}"), &world.operator).await.json();
    shown["pattern"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_page_has_its_row() {
    let rows = rows();
    let pages: Vec<(String, &str)> =
        ui::table().into_iter().filter(|page| page.asks).map(|page| (page.method.to_string(), page.path)).collect();
    let missing: Vec<_> = pages.iter().filter(|(method, path)| !rows.contains_key(&(method.as_str(), *path))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(rows.len(), pages.len());
}

#[tokio::test]
async fn pages_of_another_tenant_look_absent() {
    let world = World::new().await;
    world.kill("ours").await;
    let theirs = r#"{"run_id":"theirs","error":{"message":"theirs broke"},"steps":[{"name":"charge","key":"theirs:charge","effect":true,"status":"started"}]}"#;
    assert_eq!(world.post("/v1/failures", &world.other_worker, theirs).await.status, 201);
    let rows = rows();
    let another = Thing { tenant: "globex", run: "theirs", pattern: pattern_of(&world, "theirs", "globex").await };
    let absent = Thing { tenant: "nobody", run: "nothing", pattern: "no-such-pattern".into() };
    let tenant = log_in(&world, &world.tenant).await;
    let operator = log_in(&world, &world.operator).await;
    for page in ui::table().iter().filter(|page| page.asks) {
        let form = rows[&(page.method.as_str(), page.path)];
        let what = format!("{} {}", page.method, page.path);
        let theirs = ask(&world, &page.method, &another.path(page.path), &tenant, form).await;
        let nothing = ask(&world, &page.method, &absent.path(page.path), &tenant, form).await;
        assert_eq!(theirs.status, nothing.status, "{what}");
        assert!(!theirs.text.contains("theirs broke"), "{what}");
        if page.for_whom != ForWhom::Everyone {
            assert_eq!(theirs.status, 403, "{what}");
        } else if page.path.contains('{') {
            assert_eq!((theirs.status.as_u16(), &theirs.text), (404, &nothing.text), "{what}");
        }
        if page.for_whom == ForWhom::Admins {
            assert_eq!(ask(&world, &page.method, &absent.path(page.path), &operator, form).await.status, 403, "{what}");
        }
    }
    let shown = world.get("/v1/runs/theirs?tenant=globex", &world.operator).await.json();
    assert_eq!((shown["state"].as_str(), shown["steps"][0]["status"].as_str()), (Some("dead"), Some("unknown")));
}

#[tokio::test]
async fn every_page_loads_for_its_roles_and_stays_small() {
    let world = World::new().await;
    world.kill("ours").await;
    let own = Thing { tenant: "acme", run: "ours", pattern: pattern_of(&world, "ours", "acme").await };
    let made =
        world.post("/v1/operations", &world.admin, r#"{"action":"replay","filter":{"q":"ours"},"dry_run":true}"#).await;
    let operation = Thing {
        pattern: made.get("id").as_str().unwrap().to_owned(),
        ..Thing { tenant: "acme", run: "ours", pattern: String::new() }
    };
    for (key, is_admin) in [(&world.tenant, false), (&world.admin, true)] {
        let cookie = log_in(&world, key).await;
        for page in ui::table().iter().filter(|page| page.asks && page.method == Method::GET) {
            let thing = if page.path.starts_with("/operations") { &operation } else { &own };
            let shown = visit(&world, Method::GET, &thing.path(page.path), &cookie).await;
            let may = is_admin || page.for_whom == ForWhom::Everyone;
            assert_eq!(shown.status, if may { 200 } else { 403 }, "{}: {}", page.path, shown.text);
            assert!(shown.text.len() < 150 * 1024, "{} has {} bytes", page.path, shown.text.len());
        }
    }
}

#[tokio::test]
async fn a_person_reads_the_plan_reconciles_fixes_and_replays() {
    let world = World::new().await;
    let report = r#"{"run_id":"r1","payload":{"amount":1},"resumable":true,"error":{"message":"worker lost"},"steps":[{"name":"charge","key":"c-1","effect":true,"status":"started"}]}"#;
    world.work("/v1/failures", report).await;
    let cookie = log_in(&world, &world.tenant).await;
    let page = visit(&world, Method::GET, "/runs/acme/r1", &cookie).await.text;
    assert!(page.contains("Reconcile charge…") && page.contains("id=\"reconcile\""), "{page}");
    // No replay before the effect is reconciled.
    assert_eq!(send(&world, "/runs/acme/r1/replay", &cookie, "").await.status, 409);
    let settled = send(&world, "/runs/acme/r1/reconcile", &cookie, "key=c-1&outcome=not_done&reason=looked").await;
    assert_eq!((settled.status.as_u16(), &settled.headers["location"]), (303, &"/runs/acme/r1".parse().unwrap()));
    let broken = send(&world, "/runs/acme/r1/fix", &cookie, "payload=%7B").await.text;
    assert!(broken.contains("This can’t be replayed"), "{broken}");
    let checked = send(&world, "/runs/acme/r1/fix", &cookie, "payload=%7B%22amount%22%3A+2%7D").await.text;
    assert!(checked.contains("/amount") && checked.contains("Replay with this fix"), "{checked}");
    let hash = checked.split("name=\"plan_hash\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("payload=%7B%22amount%22%3A2%7D&plan_hash={hash}&reason=typo");
    assert_eq!(send(&world, "/runs/acme/r1/replay", &cookie, &form).await.status, 303);
    let shown = world.show("r1").await;
    assert_eq!((shown["state"].as_str(), shown["revision"].as_u64()), (Some("scheduled"), Some(2)));
    assert_eq!(shown["payload"].to_string(), r#"{"amount":2}"#);
}

#[tokio::test]
async fn an_operator_previews_and_starts_the_selected_runs() {
    let world = World::new().await;
    world.kill("a").await;
    world.kill("b").await;
    world
        .post("/v1/failures", &world.other_worker, r#"{"run_id":"c","error":{"message":"boom","terminal":true}}"#)
        .await;
    let cookie = log_in(&world, &world.operator).await;
    assert_eq!(send(&world, "/operations/new", &cookie, "action=discard&filter.state=dead").await.status, 422);
    let ticked = "run=acme%2Fa&run=globex%2Fc&action=discard";
    let composed = send(&world, "/operations/new", &cookie, ticked).await.text;
    assert!(composed.contains("Discard 2 runs"), "{composed}");
    let made = send(&world, "/operations", &cookie, &format!("{ticked}&reason=not+needed")).await;
    let to = made.headers["location"].to_str().unwrap().to_owned();
    let preview = visit(&world, Method::GET, &to, &cookie).await.text;
    assert!(preview.contains("Start: discard 2 runs"), "{preview}");
    assert_eq!(world.state("a").await, "dead");
    assert_eq!(send(&world, &format!("{to}/start"), &cookie, "").await.status, 303);
    world.store.work_operations("test").await.unwrap();
    assert_eq!((world.state("a").await, world.state("b").await), ("discarded".into(), "dead".into()));
}

#[tokio::test]
async fn pages_bound_the_numbers_in_their_addresses() {
    let world = World::new().await;
    world.kill("ours").await;
    let cookie = log_in(&world, &world.tenant).await;
    for number in ["0", "1000001", "1048578", "4294967296", "-1"] {
        for page in ["attempts/{}", "payload?revision={}"] {
            let path = format!("/runs/acme/ours/{}", page.replace("{}", number));
            assert_eq!(visit(&world, Method::GET, &path, &cookie).await.status, 422, "{path}");
        }
    }
}

#[tokio::test]
async fn a_long_runs_page_links_to_older_entries() {
    let world = World::new().await;
    for n in 1..=4 {
        let report = format!(r#"{{"run_id":"ours","attempt":{n},"error":{{"message":"KeyError: '{n}'"}}}}"#);
        assert_eq!(world.work("/v1/failures", report).await.status, 201);
    }
    let cookie = log_in(&world, &world.tenant).await;
    let page = visit(&world, Method::GET, "/runs/acme/ours?limit=2", &cookie).await.text;
    assert!(page.contains("Attempt 4 failed") && !page.contains("Attempt 2 failed"), "{page}");
    let older = page.split("href=\"").find(|rest| rest.contains("attempts_cursor=")).unwrap();
    let older = older.split('"').next().unwrap().replace("&amp;", "&");
    let page = visit(&world, Method::GET, &format!("{older}&limit=2"), &cookie).await.text;
    assert!(page.contains("Attempt 2 failed") && !page.contains("Attempt 4 failed"), "{page}");
    let all = visit(&world, Method::GET, "/runs/acme/ours", &cookie).await.text;
    assert!(all.contains("Attempt 1 failed") && !all.contains("Show older"), "{all}");
    assert!(all.find("Attempt 4 failed") < all.find("Attempt 1 failed"), "the newest comes first: {all}");
}
