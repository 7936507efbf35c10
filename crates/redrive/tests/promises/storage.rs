//! A store that cannot write: a full disk, and a changed payload that cannot be stored before it is sent.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::common::http::Http;
use crate::common::{failure, inside};
use crate::support::{Server, folder, wait_for};

const REPORTS_MAX: usize = 5_000;
const ROOM_LEFT_BYTES: u64 = 1024 * 1024;

/// A disk of a few megabytes, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(at).output().unwrap();
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "this test needs the right to mount a small tmpfs (run it as root): {said}");
        Self(at.to_owned())
    }

    /// Takes all the room that is left but what a few reports need.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = File::create(&path).unwrap();
        let mut piece = vec![0; 64 * 1024];
        while !piece.is_empty() {
            if file.write(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
        let taken = file.metadata().unwrap().len();
        file.set_len(taken.saturating_sub(ROOM_LEFT_BYTES)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn full_disk_answers_503_and_recovers_without_loss() {
    let folder = folder();
    let disk = SmallDisk::mount(&folder.path().join("disk"));
    let server = Server::start(&disk.0);
    let key = server.key.clone().unwrap();
    let mut http = Http::new(&server.url, &key);
    let mut acknowledged = Vec::new();
    let mut send = |http: &mut Http, n: usize| {
        let run_id = format!("r-{n}");
        let payload = format!(r#""{n}-{}""#, "x".repeat(2_000));
        let answer = http.post("/v1/failures", failure(&run_id, &payload)).unwrap();
        if answer.status == 201 {
            acknowledged.push((run_id, payload));
        }
        answer
    };
    assert_eq!(send(&mut http, 0).status, 201);
    for round in 1..=3 {
        let ballast = disk.fill();
        let refused = (1..REPORTS_MAX).map(|n| send(&mut http, round * REPORTS_MAX + n)).find(|a| a.status != 201);
        let refused = refused.expect("the disk is full");
        assert_eq!(refused.short(), (503, "unavailable".into()), "{}", refused.text);
        assert!(refused.head.to_ascii_lowercase().contains("retry-after:"), "{}", refused.head);
        let unready = (0..REPORTS_MAX).find(|_| http.get("/readyz").unwrap().status == 503);
        assert!(unready.is_some(), "ready for writes that would not be kept");
        assert_eq!(http.get("/v1/runs/r-0?tenant=acme").unwrap().status, 200, "what is there can be read");
        let lines = [failure("r-b1", "1"), failure("r-b2", "1")];
        let batch = http.post_lines("/v1/failures", &lines).unwrap();
        assert!(batch.text.lines().all(|line| line.contains(r#""status":503"#)), "{}", batch.text);
        std::fs::remove_file(ballast).unwrap();
        wait_for("it to go on", || (send(&mut http, round * REPORTS_MAX).status == 201).then_some(()));
        wait_for("readiness", || (http.get("/readyz").unwrap().status == 200).then_some(()));
    }
    inside::check(&disk.0);
    server.kill();
    let server = Server::start(&disk.0);
    let mut http = Http::new(&server.url, &key);
    for (run_id, payload) in &acknowledged {
        let shown = http.get(&format!("/v1/runs/{run_id}?tenant=acme")).unwrap();
        assert!(shown.text.contains(payload), "{run_id} was acknowledged: {}", shown.status);
    }
    let runs = inside::number(&disk.0, "SELECT count(*) FROM runs");
    assert_eq!(runs, i64::try_from(acknowledged.len()).unwrap(), "what was refused is not there");
    println!("{} acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 10, "the disk filled up while it was written to");
}

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
fn payload_change_that_cannot_be_stored_is_not_sent() {
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
