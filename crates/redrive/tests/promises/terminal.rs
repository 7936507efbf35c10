//! Text of strangers in the terminal: shown as text, whatever it would do there.

use crate::common::http::Http;
use crate::common::key_for;
use crate::support::{Server, folder, text};

#[test]
fn nothing_that_a_stranger_wrote_reaches_the_terminal_as_a_command() {
    let folder = folder();
    let server = Server::start(folder.path());
    let worker = key_for(folder.path(), &server, "worker", "acme");
    let person = key_for(folder.path(), &server, "tenant", "acme");
    let odd = r#""\u001b[2J\u001b]0;owned\u0007 <script>alert(1)</script> \u202egnp.exe \u0000 \u009b31m \r\nroot#""#;
    let body = format!(
        r#"{{"run_id":"a","agent":{odd},"customer":{odd},"model":{odd},"tool":{odd},"step":{odd},"payload":{odd},
            "links":{{"l":{odd}}},"error":{{"type":{odd},"message":{odd},"detail":{odd},"terminal":true}}}}"#
    );
    assert_eq!(Http::new(&server.url, &worker).post("/v1/failures", body).unwrap().status, 201);
    text(&server.cli(&person, &["runs", "note", "a", "seen \u{1b}[31m\u{202e}"]));
    // JSON in a pipe is the API's own; on a terminal it is escaped (see `out`).
    let commands: [&[&str]; 5] =
        [&["runs", "list"], &["runs", "show", "a"], &["patterns", "list"], &["health"], &["tenants", "list"]];
    for args in commands {
        let shown = text(&server.cli(&person, args));
        let harmful =
            |c: &char| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert_eq!(shown.chars().find(harmful), None, "{args:?}: {shown:?}");
    }
    let shown = text(&server.cli(&person, &["runs", "show", "a"]));
    assert!(shown.contains("<script>alert(1)</script>"), "as text: {shown}");
    let refused = server.cli(&person, &["runs", "show", "\u{1b}[31m"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!said.contains('\u{1b}'), "{said:?}");
}
