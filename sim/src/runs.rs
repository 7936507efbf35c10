//! The runs of a play: the same names in every tenant, some of each kind.

use redrive_core::ids::{RunId, Tenant};
use redrive_engine::RunRef;
use serde_json::{Value, json};

use crate::facts::Key;
use crate::world::{CALLS, TENANTS, World};

/// How many of a tenant's newest runs people still talk about.
const LIVELY: u64 = 8;

pub const MESSAGES: [&str; 4] =
    ["Request timed out", "connection reset by peer", "KeyError: 'invoice'", "Invalid API key provided"];

fn number(run: &str) -> u64 {
    run[1..].parse().unwrap_or(0)
}

pub fn is_callers(run: &str) -> bool {
    run.starts_with('c')
}

pub fn has_effects(run: &str) -> bool {
    run.starts_with('e') || run.starts_with('f')
}

pub fn order_key(run: &str) -> Option<&'static str> {
    run.starts_with('o').then_some("line")
}

/// Its steps in order: the key, whether it is an effect, and what stands for it outside.
pub fn script(key: &Key) -> Vec<(String, bool, (usize, String))> {
    let (tenant, run) = key;
    let own = |step: &str| (step.to_owned(), false, (*tenant, format!("{run}/{step}")));
    let effect = |name: String| (name.clone(), true, (*tenant, name));
    if !has_effects(run) {
        return vec![own("look")];
    }
    vec![own("look"), effect(format!("pay-{run}")), own("note"), effect(format!("tell-{}", number(run) / 16))]
}

pub fn key(tenant: &str, run: &str) -> Option<Key> {
    Some((TENANTS.iter().position(|name| *name == tenant)?, run.to_owned()))
}

pub fn at(key: &Key) -> Option<RunRef> {
    let tenant: Tenant = TENANTS[key.0].parse().ok()?;
    let run_id: RunId = key.1.parse().ok()?;
    Some(RunRef { tenant, run_id })
}

pub const HALF_A_PAIR: &str = "\\ud800";

/// Says whose it is, and is no JSON that anything would write back the same.
pub fn payload(key: &Key) -> String {
    let (tenant, run) = (TENANTS[key.0], &key.1);
    format!("{{ \"of\":\"{tenant}\",\"run\" : \"{run}\", \"n\": 1.0e0,\"u\":\"\\u0000{HALF_A_PAIR}\" }}")
}

/// The fields of a run as its producer sends them.
pub fn fields(key: &Key) -> Value {
    let run = &key.1;
    json!({
        "run_id": run,
        "queue": if is_callers(run) { CALLS } else { "default" },
        "resumable": !run.starts_with('f'),
        "order_key": order_key(run),
        "provider": "openai",
        "model": if number(run).is_multiple_of(2) { "gpt-5" } else { "gpt-4o" },
        "customer": TENANTS[key.0],
    })
}

/// As text, with the payload's own bytes in it.
pub fn body(mut fields: Value, key: &Key) -> String {
    fields["payload"] = json!("@");
    fields.to_string().replacen("\"@\"", &payload(key), 1)
}

impl World {
    pub fn any_tenant(&self) -> usize {
        self.chance.upto(TENANTS.len())
    }

    /// A run that somebody may be busy with, or a new one.
    pub fn any_run(&self, tenant: usize) -> Key {
        let mut facts = self.facts.borrow_mut();
        let newest = &mut facts.newest[tenant];
        if self.chance.happens(120) {
            *newest += 1;
        }
        let n = newest.saturating_sub(self.chance.below(LIVELY));
        let kind = ["r", "r", "e", "c", "e", "o", "f", "r", "o", "e", "c"][usize::try_from(n % 11).unwrap_or(0)];
        (tenant, format!("{kind}{n}"))
    }
}
