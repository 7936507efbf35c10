//! What clients send and how: bad input is refused, the same report from many clients is recorded once (D3), a client that
//! hangs up leaves nothing half written (D4).

use std::io::{BufReader, Write as _};
use std::sync::Barrier;

use crate::common::http::{Answer, Http, address, connect, head, read};
use crate::common::{failure, inside, key_for, lot};
use crate::support::{Server, folder, wait_for};

/// Sends bytes as they are and reads one answer.
fn raw(server: &Server, bytes: &[u8]) -> Answer {
    let mut open = BufReader::new(connect(address(&server.url)).unwrap());
    open.get_mut().write_all(bytes).unwrap();
    read(&mut open).unwrap()
}

#[test]
fn wrong_or_excessive_content_length_is_refused() {
    let folder = folder();
    let server = Server::start_with(folder.path(), &["--body-timeout-ms", "300"]);
    let key = server.key.clone().unwrap();
    let post = |length: usize| head("POST", "/v1/failures", &key, "application/json", length);
    let slow = raw(&server, format!("{}{{", post(100)).as_bytes());
    assert_eq!(slow.short(), (408, "slow_body".into()));
    let large = raw(&server, post(16 * 1024 * 1024 + 1).as_bytes());
    assert_eq!(large.short(), (413, "body_too_large".into()));
    let chunked = post(0).replace("content-length: 0", "transfer-encoding: chunked");
    let mut unannounced = chunked.into_bytes();
    let piece = vec![b' '; 1024 * 1024];
    for _ in 0..17 {
        unannounced.extend_from_slice(b"100000\r\n");
        unannounced.extend_from_slice(&piece);
        unannounced.extend_from_slice(b"\r\n");
    }
    let mut open = BufReader::new(connect(address(&server.url)).unwrap());
    // It may hang up before all is sent; the answer is there all the same.
    let _ = open.get_mut().write_all(&unannounced);
    if let Ok(answer) = read(&mut open) {
        assert_eq!(answer.short(), (413, "body_too_large".into()));
    }
    let two_lengths = post(2).replace("content-length: 2", "content-length: 2\r\ncontent-length: 40");
    assert_eq!(raw(&server, format!("{two_lengths}{{}}").as_bytes()).status, 400);
    let negative = post(2).replace("content-length: 2", "content-length: -2");
    assert_eq!(raw(&server, format!("{negative}{{}}").as_bytes()).status, 400);
    let stranger = raw(&server, post(50).replace(&key, "rdk_nobody").as_bytes());
    assert_eq!(stranger.short(), (401, "unauthorized".into()), "before a byte of the body was sent");
    assert_eq!(Http::new(&server.url, &key).get("/readyz").unwrap().status, 200);
}

/// A name is decoded and encoded again, without needless escapes.
const AS_NAME: &str = r#""\u0000 \ud800 \udfff é <script> \u001b[31m "#;
const ODD: &str = r#""\u0000 \ud800 \udfff é <script> \u001b[31m \u202e""#;

/// Every field of a report that takes any text, and a report with all of them.
#[test]
fn odd_json_strings_survive_in_every_field() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = key_for(folder.path(), &server, "worker", "acme");
    let mut http = Http::new(&server.url, &key);
    let fields = [
        format!(r#""agent":{ODD}"#),
        format!(r#""task_type":{ODD}"#),
        format!(r#""customer":{ODD}"#),
        format!(r#""environment":{ODD}"#),
        format!(r#""model":{ODD}"#),
        format!(r#""provider":{ODD}"#),
        format!(r#""tool":{ODD}"#),
        format!(r#""step":{ODD}"#),
        format!(r#""content_type":{ODD}"#),
        format!(r#""destination":{ODD}"#),
        format!(r#""partial_output":{ODD}"#),
        format!(r#""finish_reason":{ODD}"#),
        format!(r#""payload":{ODD}"#),
        format!(r#""headers":{{"x":{ODD}}}"#),
        format!(r#""versions":{{"prompt":{ODD}}}"#),
        format!(r#""links":{{"trace":{ODD}}}"#),
        format!(r#""response":{{"status":500,"headers":{{"x":{ODD}}},"body":{ODD}}}"#),
        format!(r#""steps":[{{"name":{ODD},"key":"k","effect":false,"status":"committed","output":{ODD}}}]"#),
    ];
    let error = format!(r#""error":{{"type":{ODD},"message":{ODD},"detail":{ODD},"headers":{{"x":{ODD}}}}}"#);
    for (n, field) in fields.iter().enumerate() {
        let name = field.split(':').next().unwrap();
        let answer = http.post("/v1/failures", format!(r#"{{"run_id":"f{n}",{field},{error}}}"#)).unwrap();
        assert_eq!(answer.status, 201, "{name}: {}", answer.text);
        let shown = http.get(&format!("/v1/runs/f{n}")).unwrap();
        assert_eq!(shown.status, 200, "{name}");
        let exact = shown.text.matches(ODD).count();
        let as_name = shown.text.matches(AS_NAME).count() - exact;
        // Four of the error itself, and at least one of the field.
        assert!(exact >= 4 && exact + as_name >= 5, "{name}: {exact}, {as_name}: {}", shown.text);
    }
    let all = format!(r#"{{"run_id":"all",{},{error}}}"#, fields.join(","));
    assert_eq!(http.post("/v1/failures", &all).unwrap().status, 201);
    assert_eq!(http.post("/v1/failures", &all).unwrap().status, 200);
    assert_eq!(http.get("/v1/runs/all").unwrap().status, 200);
}

#[test]
fn invalid_ids_are_422_everywhere() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let long = "x".repeat(201);
    for id in ["", ".", "..", "a b", "a/b", "é", r"\u0000", "a#", "%41", "*", "a\\n", &long] {
        for field in ["run_id", "tenant", "queue", "idempotency_key", "order_key"] {
            let others = ["run_id", "tenant"].iter().filter(|other| **other != field);
            let others: String = others.map(|other| format!(r#","{other}":"ok""#)).collect();
            let body = format!(r#"{{"{field}":"{id}"{others},"error":{{"message":"m"}}}}"#);
            let answer = http.post("/v1/failures", &body).unwrap();
            assert_eq!(answer.status, 422, "{body}: {}", answer.text);
            assert_eq!(answer.json()["field"], field, "{body}: {}", answer.text);
        }
    }
    let longest = "A".repeat(195) + "._:@-";
    let body = format!(r#"{{"run_id":"{longest}","tenant":"ok","error":{{"message":"m"}}}}"#);
    assert_eq!(http.post("/v1/failures", body).unwrap().status, 201);
    assert_eq!(http.get(&format!("/v1/runs/{longest}?tenant=ok")).unwrap().status, 200);
}

#[test]
fn a_cursor_of_another_tenant_is_refused() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut pages = Vec::new();
    for tenant in ["acme", "globex"] {
        let worker = key_for(folder.path(), &server, "worker", tenant);
        for run_id in ["a", "b", "c"] {
            let body = format!(r#"{{"run_id":"{run_id}","error":{{"message":"m"}}}}"#);
            assert_eq!(Http::new(&server.url, &worker).post("/v1/failures", body).unwrap().status, 201);
        }
        let person = key_for(folder.path(), &server, "tenant", tenant);
        let mut http = Http::new(&server.url, &person);
        let cursor = http.get("/v1/runs?limit=1").unwrap().json()["next_cursor"].as_str().unwrap().to_owned();
        pages.push((http, cursor));
    }
    let theirs = pages[1].1.clone();
    let (http, mine) = &mut pages[0];
    assert_eq!(http.get(&format!("/v1/runs?limit=1&cursor={mine}")).unwrap().status, 200);
    let spoilt = format!("{}x", &mine[..mine.len() - 1]);
    for cursor in [theirs, spoilt, mine[..mine.len() / 2].to_owned(), "%00".into(), "%ff".into()] {
        let answer = http.get(&format!("/v1/runs?limit=1&cursor={cursor}")).unwrap();
        assert!(matches!(answer.status, 400 | 422), "{cursor}: {}", answer.text);
    }
}

/// Whatever bytes come, the answer is a problem and never a 500, and the next request is served.
#[test]
fn a_thousand_mutated_reports_never_cause_a_500() {
    let lot = lot::Lot::new(lot::seed());
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let whole = format!(
        r#"{{"run_id":"a","tenant":"acme","attempt":1,"payload":{{"n":[1,2.5e3,null]}},"error":{{"message":{ODD},"http_status":500}}}}"#
    );
    for _ in 0..1_000 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..1 + lot.upto(3) {
            let at = lot.upto(bytes.len() + 1);
            match lot.below(4) {
                0 | 1 if at == bytes.len() => bytes.push(b'}'),
                0 => bytes[at] = u8::try_from(lot.below(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *lot.pick(b"{}[]\",:\\\0\xff0e-")),
                _ => bytes.truncate(at),
            }
        }
        let kind = *lot.pick(&["application/json", "application/x-ndjson"]);
        let answer = http.send("POST", "/v1/failures", kind, &bytes).unwrap();
        assert!(answer.status < 500, "{}: {:?}", answer.text, String::from_utf8_lossy(&bytes));
        assert!(!answer.text.contains(r#""status":500"#), "{}", answer.text);
        if answer.status == 400 {
            assert!(answer.json()["offset"].as_u64().is_some_and(|at| at <= bytes.len() as u64), "{}", answer.text);
        }
    }
    crate::common::inside::check(folder.path());
}

const RACES: usize = 200;
const CLIENTS: usize = 64;

#[test]
fn identical_concurrent_reports_are_recorded_once() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let start = Barrier::new(CLIENTS);
    let answers: Vec<Vec<Answer>> = std::thread::scope(|threads| {
        let race = || {
            let mut http = Http::new(&server.url, &key);
            let mut one = |race| {
                start.wait();
                http.post("/v1/failures", failure(&format!("task-{race}"), "1")).unwrap()
            };
            (0..RACES).map(&mut one).collect()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(race)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for race in 0..RACES {
        let heard: Vec<&Answer> = answers.iter().map(|client| &client[race]).collect();
        assert_eq!(heard.iter().filter(|answer| answer.status == 201).count(), 1, "race {race}");
        assert_eq!(heard.iter().filter(|answer| answer.status == 200).count(), CLIENTS - 1, "race {race}");
        assert!(heard.iter().all(|answer| answer.text == heard[0].text), "race {race}");
    }
    let attempts = inside::number(folder.path(), "SELECT count(*) FROM attempts");
    assert_eq!(attempts, i64::try_from(RACES).unwrap());
    let mut http = Http::new(&server.url, &key);
    let other = failure("task-0", "1").replace("timed out", "timed out again");
    assert_eq!(http.post("/v1/failures", other).unwrap().short(), (409, "attempt_conflict".into()));
    inside::check(folder.path());
}

const HANG_UP_ROUNDS: usize = 10;

#[test]
fn disconnects_leave_no_open_transaction_and_no_partial_write() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut whole = Vec::new();
    for round in 0..HANG_UP_ROUNDS {
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
    assert_eq!(runs, i64::try_from(HANG_UP_ROUNDS * 51).unwrap());
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
