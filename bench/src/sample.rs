//! The reports that the bench sends: 2 KB, a hundred tenants, four root causes. One of them names its task, so that no two
//! of its messages are the same.

use std::fmt::Write;

const TENANTS: u64 = 100;
const CAUSES: [(&str, &str); 4] = [
    ("APITimeoutError", "Request timed out after 60 s while waiting for the model"),
    ("KeyError", "'invoice_total' is not in the parsed answer of task {task}"),
    ("RateLimitError", "Rate limit reached for requests per min: Limit 500, Used 500. Please try again in 12s"),
    ("AuthenticationError", "Incorrect API key provided: check the key of this workspace"),
];
const FRAMES: &str =
    "  File \\\"/app/agents/biller.py\\\", line 118, in charge\\n    answer = client.chat(messages)\\n";
const WORDS: &str = "The customer asks for the invoice of last month and wants it split by cost centre. ";

/// The n-th report's JSON.
pub fn report(series: &str, n: u64) -> String {
    let (kind, message) = CAUSES[(n % 4) as usize];
    let message = message.replace("{task}", &n.to_string());
    let tenant = n.wrapping_mul(7_919) % TENANTS;
    let mut body = String::with_capacity(2_100);
    let _ = write!(
        body,
        "{{\"run_id\":\"{series}-{:016x}\",\"tenant\":\"tenant-{tenant}\",\"queue\":\"invoices\",\"agent\":\"biller\",\
         \"payload\":{{\"task\":{n},\"messages\":[{{\"role\":\"user\",\"content\":\"",
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    );
    for _ in 0..12 {
        body.push_str(WORDS);
    }
    let _ = write!(
        body,
        "\"}}]}},\"model\":\"gpt-5\",\"provider\":\"openai\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\",\"detail\":\"Traceback (most recent call last):\\n"
    );
    for _ in 0..6 {
        body.push_str(FRAMES);
    }
    let _ = write!(body, "{kind}: {message}\"}}}}");
    body
}
