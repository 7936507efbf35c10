//! What is around the store: the clock, and the configuration file.

use redrive_core::time::{MINUTE_MS, Timestamp};

use super::finding::{Finding, Severity};
use crate::commands::direct::Visit;
use crate::commands::serve::is_exposed;
use crate::config::{ConfigPath, Settings};

/// When this was written; no clock is earlier.
const NOT_BEFORE_MS: i64 = 1_767_225_600_000;
/// Clocks are set right by this much without anybody noticing.
const SLACK_MS: u64 = MINUTE_MS;

pub(crate) fn clock(store: &mut Visit) -> Finding {
    match (store.now(), store.last_stamp()) {
        (Ok(now), Ok(last)) => judge(now, last),
        (Err(error), _) | (_, Err(error)) => Finding::unreadable("clock", error),
    }
}

fn judge(now: Timestamp, last: Option<Timestamp>) -> Finding {
    let what = "Due times and leases go by this clock: set it right and let it be kept so (NTP).";
    if now.as_millis() < NOT_BEFORE_MS {
        return Finding::new(Severity::Danger, "clock", format!("it says {now}, which is long past"), what);
    }
    match last {
        Some(last) if last > now.plus_ms(SLACK_MS) => {
            let seen = format!("it says {now}, and a server was here at {last} already: it has gone back");
            Finding::new(Severity::Danger, "clock", seen, what)
        }
        Some(last) => Finding::fine("clock", format!("{now}; a server was last here at {last}")),
        None => Finding::fine("clock", format!("{now}; no server was here yet")),
    }
}

pub(crate) fn configuration(config: &ConfigPath) -> Finding {
    match config.read() {
        Ok(file) => match Settings::try_from(file.server) {
            Ok(settings) => exposure(&settings),
            Err(error) => Finding::new(Severity::Action, "configuration", error.to_string(), "Mend it."),
        },
        Err(error) => {
            let what = "Mend it: `redrive serve` does not start with it.";
            Finding::new(Severity::Action, "configuration", format!("{error:#}"), what)
        }
    }
}

/// The server speaks plain HTTP itself.
fn exposure(settings: &Settings) -> Finding {
    let exposed = [Some(settings.listen), settings.metrics_listen].into_iter().flatten().find(|at| is_exposed(*at));
    match exposed {
        None => Finding::fine("configuration", "it can be read"),
        Some(address) => {
            let what = "Listen on 127.0.0.1 behind a TLS proxy, or make sure that nobody else can read that network.";
            Finding::new(
                Severity::Advice,
                "configuration",
                format!("plain HTTP on {address}, beyond this machine"),
                what,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerSection;

    #[test]
    fn a_clock_that_went_back_or_never_was_set_is_a_danger() {
        let now = Timestamp::from_millis(NOT_BEFORE_MS + 1_000_000);
        let severity = |now, last| judge(now, last).severity;
        assert_eq!(severity(now, Some(now)), Severity::Fine);
        assert_eq!(severity(now, None), Severity::Fine);
        assert_eq!(severity(now, Some(now.plus_ms(2 * SLACK_MS))), Severity::Danger);
        assert_eq!(severity(Timestamp::from_millis(0), None), Severity::Danger);
    }

    #[test]
    fn plain_http_beyond_this_machine_is_worth_a_word() {
        let severity = |listen: &str, metrics: Option<&str>| {
            let listen = Some(listen.to_owned());
            let metrics_listen = metrics.map(str::to_owned);
            exposure(&Settings::try_from(ServerSection { listen, metrics_listen, ..Default::default() }).unwrap())
                .severity
        };
        assert_eq!(severity("127.0.0.1:7070", None), Severity::Fine);
        assert_eq!(severity("[::1]:7070", Some("127.0.0.2:1")), Severity::Fine);
        assert_eq!(severity("[::ffff:127.0.0.1]:7070", None), Severity::Fine);
        assert_eq!(severity("0.0.0.0:7070", None), Severity::Advice);
        assert_eq!(severity("127.0.0.1:7070", Some("[::]:9000")), Severity::Advice);
    }
}
