use super::*;
use crate::classify::classify;

fn of(text: &str) -> Fingerprint {
    let evidence = Evidence::of(text);
    fingerprint(&evidence, &classify(&evidence).reason)
}

#[track_caller]
fn together(texts: &[&str]) {
    let first = of(texts[0]);
    for text in texts {
        let print = of(text);
        assert_eq!(print.hash, first.hash, "{} | {}", first.template, print.template);
    }
}

#[track_caller]
fn apart(a: &str, b: &str) {
    assert_ne!(of(a).hash, of(b).hash, "{}", of(a).template);
}

#[test]
fn ids_numbers_urls_and_hosts_are_masked() {
    together(&[
        "request req_Ab3dE6gH9jK2 took 120ms at https://a.example.com/v1/x?y=1",
        "request req_ZZ9yX8wV7uT6 took 98s at https://b.example.org/v2/z",
    ]);
    together(&[
        "job 7f3a9c2e-1b2c-4d5e-8f90-aabbccddeeff lost on db-3.prod.internal",
        "job 00000000-1b2c-4d5e-8f90-aabbccddee00 lost on db-12.prod.internal",
    ]);
    together(&["cannot open '/srv/a/b.txt'", "cannot open '/home/x/y/z.txt'"]);
    together(&["no access to model gpt-5-mini", "no access to model claude-9"]);
}

#[test]
fn names_of_the_failing_part_stay() {
    apart("KeyError: 'temperature'", "KeyError: 'top_p'");
    apart("Unknown tool: 'search'", "Unknown tool: 'fetch'");
    apart("violates unique constraint \"orders_pkey\"", "violates unique constraint \"users_pkey\"");
    apart("Request failed with status code 404", "Request failed with status code 500");
    together(&["KeyError: 'invoice_17'", "KeyError: 'invoice_99'"]);
    assert_eq!(of("KeyError: 'invoice_17'").template, "KeyError: 'invoice_‹n›'");
}

#[test]
fn traces_differ_by_own_frames_not_by_line_numbers() {
    let trace = |path: &str, line: u32, function: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"{path}\", line {line}, in {function}\n    x = f()\n  File \"/usr/lib/python3.12/json/decoder.py\", line 3, in decode\n    y\nValueError: could not convert string to float: 'abc'"
        )
    };
    let first = of(&trace("/srv/a/refund.py", 10, "refund"));
    assert_eq!(first.hash, of(&trace("/app/refund.py", 99, "refund")).hash);
    assert_ne!(first.hash, of(&trace("/app/refund.py", 99, "charge")).hash);
    assert_eq!(first.template, "ValueError: could not convert string to float: '‹text›' at refund.py:refund");
}

#[test]
fn javascript_library_frames_are_ignored() {
    let trace = |library: &str| {
        format!(
            "Error: boom\n    at {library} (/app/node_modules/x/y.js:1:2)\n    at charge (/app/src/charge.js:10:5)\n    at node:internal/process:1:1"
        )
    };
    assert_eq!(of(&trace("a")).hash, of(&trace("b")).hash);
}

#[test]
fn lists_fold_to_one_mask() {
    together(&["bad rows: 1, 2, 3", "bad rows: 4, 5"]);
}

#[test]
fn without_text_the_reason_is_the_template() {
    let evidence = Evidence::of("");
    assert_eq!(fingerprint(&evidence, &Reason::Silent).template, "silent");
    assert_ne!(fingerprint(&evidence, &Reason::Silent).hash, fingerprint(&evidence, &Reason::Unclaimed).hash);
}

#[test]
fn why_grouped_lists_each_masked_part() {
    let parts = why_grouped(&Evidence::of("lost 3 rows of /srv/x"));
    let shown: Vec<_> = parts.iter().map(|p| (p.original.as_str(), p.mask)).collect();
    assert_eq!(shown, [("3", Mask::Number), ("/srv/x", Mask::Path)]);
}

#[test]
fn fingerprint_ids_carry_their_version() {
    let print = Fingerprint { version: 1, hash: 0x9f86_d081_884c_7d65, template: String::new() };
    assert_eq!(print.id(), "1-9f86d081884c7d65");
}
