//! How fast, and how evenly: `cargo test -p redrive-core --release --test throughput -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use redrive_core::classify::{Evidence, classify};
use redrive_core::pattern::fingerprint;

/// Errors as they arrive, about 500 bytes each.
const TYPICAL: [&str; 6] = [
    "Traceback (most recent call last):\n  File \"/srv/agents/biller/worker.py\", line 118, in run_step\n    result = await step(state)\n  File \"/srv/agents/biller/tools/charge.py\", line 42, in charge\n    response = await client.post(url, json=body)\n  File \"/usr/lib/python3.12/site-packages/httpx/_client.py\", line 1859, in post\n    return await self.request(\n  File \"/usr/lib/python3.12/site-packages/httpx/_transports/default.py\", line 118, in map_httpcore_exceptions\n    raise mapped_exc(message) from exc\nhttpx.ReadTimeout: The read operation timed out",
    "Error code: 429 - {'error': {'message': 'Rate limit reached for large-model-2 in organization org-a1b2c3d4e5 on tokens per min (TPM): Limit 30000, Used 28744, Requested 2101. Please try again in 1.69s. Visit https://platform.example.com/account/rate-limits to learn more. You can raise the limit by adding a payment method to your account at https://platform.example.com/account/billing.', 'type': 'tokens', 'param': None, 'code': 'rate_limit_exceeded'}, 'request_id': 'req_8f14e45fceea167a5a36dedd4bea2543'}",
    "3 validation errors for InvoiceDraft\ncustomer.name\n  Field required [type=missing, input_value={'id': 'c-9', 'email': 'kim@example.com'}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.12/v/missing\nlines.0.amount\n  Input should be a valid number, unable to parse string as a number [type=float_parsing, input_value='twelve', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.12/v/float_parsing\ntotal\n  Field required [type=missing, input_value={'id': 'd-1'}, input_type=dict]",
    "TypeError: Cannot read properties of undefined (reading 'content')\n    at parseAnswer (/app/dist/agents/answer.js:71:28)\n    at async runTurn (/app/dist/agents/loop.js:140:20)\n    at async Agent.run (/app/dist/agents/agent.js:88:9)\n    at async processJob (/app/dist/worker/process.js:31:5)\n    at async Worker.handle (/app/node_modules/bullish/dist/worker.js:512:24)\n    at async Worker.retryIfFailed (/app/node_modules/bullish/dist/worker.js:742:24)\n    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)",
    "2026-03-01T10:15:22.481Z INFO  worker-7 picked up job 91344 from queue invoices (attempt 2 of 5)\n2026-03-01T10:15:22.502Z INFO  worker-7 connecting to postgres://billing@db-3.internal:5432/billing\n2026-03-01T10:15:27.530Z WARN  worker-7 connection attempt 1 failed, retrying in 500 ms\n2026-03-01T10:15:33.041Z ERROR worker-7 job 91344 failed: could not connect to server: Connection refused. Is the server running on host \"db-3.internal\" (10.4.0.17) and accepting TCP/IP connections on port 5432?",
    "litellm.BadRequestError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"},\"request_id\":\"req_011CWiMp1wjvTjdKdvqoRTQE\"}. Received Model Group=claude-large\nAvailable Model Group Fallbacks=None. Original exception: AnthropicError status_code=400, headers={'x-should-retry': 'false', 'content-type': 'application/json', 'via': '1.1 gateway'}, after 1 attempt in 2314 ms by deployment 4 of router eu-west",
];

fn answer(text: &str) {
    let evidence = Evidence::of(text);
    let classified = classify(&evidence);
    black_box(fingerprint(&evidence, &classified.reason));
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this is for")]
fn time(work: impl Fn()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

#[test]
#[ignore = "measures; run it in release mode on a quiet machine"]
fn errors_a_second_and_cost_of_hostile_texts() {
    const ROUNDS: u32 = 20_000;
    TYPICAL.iter().for_each(|text| answer(text));
    let spent =
        (0..5).map(|_| time(|| (0..ROUNDS).for_each(|_| TYPICAL.iter().for_each(|text| answer(text))))).min().unwrap();
    let count = f64::from(ROUNDS) * TYPICAL.len() as f64;
    let bytes: usize = TYPICAL.iter().map(|text| text.len()).sum();
    let typical_ns = spent.as_secs_f64() * 1e9 / f64::from(ROUNDS) / bytes as f64;
    println!(
        "{:.0} errors a second of {} bytes, {typical_ns:.1} ns a byte",
        count / spent.as_secs_f64(),
        bytes / TYPICAL.len()
    );
    for unit in [
        "a",
        "timeout ",
        "'a ",
        "\"=",
        "tool ",
        "é",
        "1",
        "\n",
        "\\",
        "a:",
        "http://",
        "rate limit exceeded not found ",
        "  File \"/a/b.py\", line 3, in f\n",
    ] {
        let hostile = unit.repeat((1 << 20) / unit.len());
        let spent = (0..5).map(|_| time(|| answer(&hostile))).min().unwrap();
        let hostile_ns = spent.as_secs_f64() * 1e9 / hostile.len() as f64;
        println!("{unit:?}: {hostile_ns:.2} ns a byte");
        assert!(hostile_ns <= 2.0 * typical_ns);
    }
}
