//! D5: a full disk is 503 and no acknowledgement; nothing is damaged, and with room again it goes on by itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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
fn a_full_disk_is_503_loses_nothing_and_mends_by_itself() {
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
