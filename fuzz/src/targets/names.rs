//! Small things that are read back from where strangers had them: ids, times, lease tokens, kept bytes.

use redrive_core::ids::{IdempotencyKey, QueueName, RunId, StepKey, Tenant};
use redrive_core::reason::Reason;
use redrive_core::time::Timestamp;
use redrive_store::{LeaseToken, decode, encode};

use super::{Ask, Target, told};

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
