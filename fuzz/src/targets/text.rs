//! Text: the classifier, user rules, what an output shows, and what is read back from callers: ids, times, lease tokens.

use redrive_core::classify::user_rules::{RunFacts, UserRule, compile};
use redrive_core::classify::{Evidence, classify, explain};
use redrive_core::detect::{ReportedSuccess, observe};
use redrive_core::ids::{IdempotencyKey, QueueName, RunId, StepKey, Tenant};
use redrive_core::pattern::{fingerprint, why_grouped};
use redrive_core::reason::Reason;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_engine::{LeaseToken, decode, encode};

use super::{Ask, Target, halves, told};

pub const CLASSIFIER: Target = Target {
    name: "classifier",
    corpus: &["errors"],
    words: &[
        "HTTP 429",
        "Retry-After: ",
        "Traceback (most recent call last):\n",
        "{\"error\":{\"message\":\"",
        "context_length_exceeded",
        "timed out",
        "\n  File \"",
        "Caused by: ",
        "resets at ",
    ],
    make: classifier,
};
pub const RULES: Target = Target {
    name: "rules",
    corpus: &["rules"],
    words: &[
        "\"match\":{",
        "\"text\":",
        "\"regex\":\"(a+)+$\"",
        "\"payload\":[{\"pointer\":\"/a\",",
        "\"reason\":\"x:y\"",
        "\"status\":",
        "[",
        "{1000}",
        "(?i)",
        "\n---\n",
    ],
    make: rules,
};
pub const OBSERVED: Target = Target {
    name: "detectors",
    corpus: &["payloads", "errors"],
    words: &[
        "\"finish_reason\":\"length\"",
        "\"stop_reason\":\"max_tokens\"",
        "\"tool_calls\":[",
        "\"role\":\"tool\"",
        "\"is_error\":true",
        "\"content\":[{\"type\":\"text\",\"text\":\"",
    ],
    make: observed,
};
pub const TEXTS: Target =
    Target { name: "texts", corpus: &["payloads", "names"], words: &["\"\\u", "d83d", "\\ude00"], make: texts };

fn classifier() -> Ask {
    Box::new(|input| {
        let text = String::from_utf8_lossy(input);
        let (message, detail) = halves(&text);
        let headers = [("retry-after", detail)];
        let evidence = Evidence {
            text: message,
            detail: Some(detail),
            error_type: Some(detail),
            headers: &headers,
            response_body: Some(detail),
            now_ms: Some(1_800_000_000_000),
            ..Evidence::default()
        };
        let plain = Evidence::of(&text);
        for evidence in [evidence, plain] {
            let classified = classify(&evidence);
            let explained = explain(&evidence).classified;
            if classified != explained {
                return Err(format!("{classified:?} is explained as {explained:?}"));
            }
            let (first, again) =
                (fingerprint(&evidence, &classified.reason), fingerprint(&evidence, &classified.reason));
            if first != again {
                return Err("the same failure has two fingerprints".into());
            }
            let _ = why_grouped(&evidence);
        }
        let found = classify(&plain);
        Ok(told((found.reason.to_string(), found.rule)))
    })
}

fn rules() -> Ask {
    Box::new(|input| {
        let text = String::from_utf8_lossy(input);
        let (rules, message) = halves(&text);
        let Ok(rules) = serde_json::from_str::<Vec<UserRule>>(rules) else { return Ok(1) };
        match compile(rules) {
            Ok(rules) => {
                let fields = RunFacts { tenant: "acme", queue: "default", agent: Some(message), ..RunFacts::default() };
                let hit = rules.first_match(&Evidence::of(message), &fields, Some(message));
                Ok(told(("rules", hit.is_some())))
            }
            Err(error) => Ok(told(error.message.chars().take(24).collect::<String>())),
        }
    })
}

fn observed() -> Ask {
    Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        let (output, finish) = halves(text);
        let seen = observe(&ReportedSuccess {
            output: Some(output),
            finish_reason: Some(finish),
            ..ReportedSuccess::default()
        });
        let again = observe(&ReportedSuccess {
            output: Some(output),
            finish_reason: Some(finish),
            ..ReportedSuccess::default()
        });
        if seen != again {
            return Err("the same was seen twice, and differently".into());
        }
        Ok(told((
            seen.blank,
            seen.capped.is_some(),
            seen.tool_error.is_some(),
            seen.tools.named.len().min(4),
            seen.breach,
        )))
    })
}

/// A text goes out as the token it came in, and can always be read.
fn texts() -> Ask {
    Box::new(|input| {
        let Ok(json) = std::str::from_utf8(input) else { return Ok(0) };
        let label = serde_json::from_str::<Label>(json).is_ok();
        let Ok(text) = serde_json::from_str::<Text>(json) else { return Ok(told(label)) };
        let written = serde_json::to_string(&text).map_err(|e| e.to_string())?;
        if written != json.trim() {
            return Err(format!("{json} came back as {written}"));
        }
        if Text::from_token(written).is_none() {
            return Err(format!("{json} is no token of its own"));
        }
        Ok(told((label, text.decode().len().min(16))))
    })
}

pub const NAMES: Target =
    Target { name: "names", corpus: &["names"], words: &["x:", "op-", "l1-1-1-1", "Z", "T"], make: names };
pub const CODEC: Target = Target { name: "codec", corpus: &["names", "payloads"], words: &[], make: codec };

/// What is taken is written as it was read.
fn names() -> Ask {
    Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        let mut taken = Vec::new();
        let mut same = |what: &'static str, written: Option<String>| match written {
            Some(written) if written != text => Err(format!("{what}: {text:?} came back as {written:?}")),
            Some(_) => {
                taken.push(what);
                Ok(())
            }
            None => Ok(()),
        };
        same("a tenant", text.parse::<Tenant>().ok().map(|it| it.to_string()))?;
        same("a run", text.parse::<RunId>().ok().map(|it| it.to_string()))?;
        same("a queue", text.parse::<QueueName>().ok().map(|it| it.to_string()))?;
        same("a step's key", text.parse::<StepKey>().ok().map(|it| it.to_string()))?;
        same("an idempotency key", text.parse::<IdempotencyKey>().ok().map(|it| it.to_string()))?;
        same("a lease", text.parse::<LeaseToken>().ok().map(|it| it.to_string()))?;
        same("a reason", text.parse::<Reason>().ok().map(|it| it.to_string()))?;
        if let Ok(time) = text.parse::<Timestamp>() {
            let again = time.to_string().parse::<Timestamp>();
            if again.as_ref().ok() != Some(&time) {
                return Err(format!("a time: {text:?} is {time}, and that reads as {again:?}"));
            }
            taken.push("a time");
        }
        Ok(told(taken))
    })
}

/// What goes in comes out; what never went in is refused and nothing else.
fn codec() -> Ask {
    Box::new(|input| {
        let kept = encode(input);
        if decode(&kept).ok().as_deref() != Some(input) {
            return Err("kept bytes came back as others".into());
        }
        Ok(told(decode(input).map(|bytes| bytes.len().min(8)).map_err(|e| e.to_string())))
    })
}
