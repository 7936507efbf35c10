//! D4: a client that hangs up anywhere leaves no open transaction and no half write, and the server goes on.

use std::io::Write as _;

use crate::common::http::{Http, address, connect, head};
use crate::common::{failure, inside};
use crate::support::{Server, folder, wait_for};

const ROUNDS: usize = 10;

#[test]
fn clients_that_hang_up_anywhere_leave_nothing_open_and_nothing_half() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut whole = Vec::new();
    for round in 0..ROUNDS {
        let lines: Vec<String> = (0..50).map(|n| failure(&format!("line-{round}-{n}"), "1")).collect();
        for (kind, body) in
            [("application/json", failure(&format!("one-{round}"), "1")), ("application/x-ndjson", lines.join("\n"))]
        {
            let head = head("POST", "/v1/failures", &key, kind, body.len());
            let request = format!("{head}{body}");
            // Inside the head, after it, inside the body, one byte short, and after all of it without waiting.
            for end in [10, head.len(), head.len() + body.len() / 2, request.len() - 1, request.len()] {
                let mut stream = connect(address(&server.url)).unwrap();
                stream.write_all(&request.as_bytes()[..end]).unwrap();
            }
            whole.push(body);
        }
    }
    let mut http = Http::new(&server.url, &key);
    for body in whole {
        let lines: Vec<String> = body.lines().map(str::to_owned).collect();
        let again = http.post_lines("/v1/failures", &lines).unwrap();
        let accepted = again.text.lines().filter(|line| line.contains(r#""state":"scheduled""#)).count();
        assert_eq!(accepted, lines.len(), "{}", again.text);
    }
    let runs = inside::number(folder.path(), "SELECT count(*) FROM runs");
    assert_eq!(runs, i64::try_from(ROUNDS * 51).unwrap());
    assert_eq!(inside::number(folder.path(), "SELECT count(*) FROM attempts"), runs);
    inside::check(folder.path());
    nothing_is_open(&folder.path().join(inside::DATABASE));
}

/// A write begins at once, and a checkpoint gets the log back to its beginning: nobody reads or writes.
fn nothing_is_open(path: &std::path::Path) {
    let conn = rusqlite::Connection::open(path).unwrap();
    wait_for("the writer to be free", || conn.execute_batch("BEGIN IMMEDIATE; ROLLBACK").ok());
    wait_for("a checkpoint that nobody holds up", || {
        let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        (busy == 0).then_some(())
    });
}
