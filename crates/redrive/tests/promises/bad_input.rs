//! The table of bad input, over the wire. What `crates/server` asks of the router is not asked again here: this is about
//! bytes, lengths and the real socket, and every text field there is.

use std::io::{BufReader, Write as _};

use crate::common::http::{Answer, Http, address, connect, head, read};
use crate::common::{key_for, lot};
use crate::support::{Server, folder};

/// Sends bytes as they are and reads one answer.
fn raw(server: &Server, bytes: &[u8]) -> Answer {
    let mut open = BufReader::new(connect(address(&server.url)).unwrap());
    open.get_mut().write_all(bytes).unwrap();
    read(&mut open).unwrap()
}

#[test]
fn a_body_whose_length_lies_or_is_too_much_is_refused_and_the_server_goes_on() {
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

/// A name is decoded and written anew: what needs no escape has none.
const AS_NAME: &str = r#""\u0000 \ud800 \udfff é <script> \u001b[31m "#;
const ODD: &str = r#""\u0000 \ud800 \udfff é <script> \u001b[31m \u202e""#;

/// Every field of a report that takes any text, and a report with all of them.
#[test]
fn texts_that_only_json_can_write_are_kept_in_every_field() {
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
fn ids_outside_the_pattern_are_422_wherever_they_stand() {
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
fn a_thousand_spoilt_reports_are_answered_and_none_is_a_500() {
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
