//! A changed payload goes out only once it is on disk. Where it can't be kept the original goes out and the answer says
//! so; the lease is never lost for it.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::common::http::Http;
use crate::common::inside;
use crate::support::{Server, folder};

fn chat() -> Value {
    json!({"model": "gpt-5", "messages": [{"role": "user", "content": "Write the invoice."}]})
}

/// A dead run that a person sends on with an instruction; what its worker gets.
fn replayed(http: &mut Http, run_id: &str) -> Value {
    let body = json!({"tenant": "acme", "run_id": run_id, "payload": chat(), "error": {"message": "KeyError: 'x'"}});
    assert_eq!(http.post("/v1/failures", body.to_string()).unwrap().short(), (201, "dead".into()));
    let fix = json!({"reason": "try", "instruction": "Be brief."}).to_string();
    assert_eq!(http.post(&format!("/v1/runs/{run_id}/replay?tenant=acme"), fix).unwrap().status, 200);
    http.post("/v1/leases", r#"{"queues":["*"],"max":1}"#).unwrap().json()["leases"][0].take()
}

#[test]
fn a_changed_payload_that_cant_be_kept_goes_out_as_it_was() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let beside = Connection::open(folder.path().join(inside::DATABASE)).unwrap();
    beside
        .execute_batch("CREATE TRIGGER no_room BEFORE INSERT ON sent BEGIN SELECT RAISE(ABORT, 'no room'); END")
        .unwrap();
    let unkept = replayed(&mut http, "unkept");
    assert_eq!(unkept["payload"], chat());
    let changes = unkept["changes"].as_array().unwrap();
    assert_eq!(changes.iter().map(|change| &change["applied"]).collect::<Vec<_>>(), [&json!(false)]);
    // It is the worker's all the same.
    let done = json!({"lease": unkept["lease"], "output": "done"}).to_string();
    assert_eq!(http.post("/v1/runs/unkept/succeed?tenant=acme", done).unwrap().short(), (200, "recovered".into()));

    beside.execute_batch("DROP TRIGGER no_room").unwrap();
    let kept = replayed(&mut http, "kept");
    assert_eq!(kept["changes"][0]["applied"], true);
    assert!(kept["payload"].to_string().contains("Be brief."), "{}", kept["payload"]);
}
