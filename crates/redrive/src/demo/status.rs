//! The counts as they move: one line that renews itself on a terminal, plain lines for everybody else.

use std::time::Duration;

use redrive_client::{Client, StatsQuery};
use redrive_core::run::StateName;
use redrive_core::wire::StatsAnswer;
use tokio::time::sleep;

use super::enter::Enter;
use crate::out::{Out, Style};

const ON_A_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(10);

pub(crate) struct Status {
    client: Client,
}

impl Status {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Until the output can't be written any more. Enter asks for another link.
    pub(crate) async fn show(
        &self,
        enter: &mut Enter,
        new_link: impl Fn() -> String,
        out: &mut Out,
    ) -> anyhow::Result<()> {
        loop {
            // A look that failed is made up for by the next one.
            if let Ok(stats) = self.client.stats(&StatsQuery::default()).await {
                print(&stats, out)?;
            }
            tokio::select! {
                () = sleep(if out.columns().is_some() { ON_A_TERMINAL } else { ELSEWHERE }) => {}
                () = enter.pressed() => out.line(format_args!("\r\x1b[2K{}", new_link()))?,
            }
        }
    }
}

fn print(stats: &StatsAnswer, out: &mut Out) -> anyhow::Result<()> {
    let words = counts(stats);
    let plain: Vec<String> = words.iter().map(|(word, n, _)| format!("{word} {n}")).collect();
    let plain = plain.join("   ");
    match out.columns() {
        Some(columns) if plain.len() < columns => {
            let painted: Vec<String> =
                words.iter().map(|(word, n, style)| format!("{word} {}", out.styled(*style, n))).collect();
            out.bytes(format!("\r\x1b[2K{}", painted.join("   ")).as_bytes())?;
        }
        Some(columns) => {
            let cut: String = plain.chars().take(columns.saturating_sub(1)).collect();
            out.bytes(format!("\r\x1b[2K{cut}").as_bytes())?;
        }
        None => out.line(plain)?,
    }
    Ok(out.flush()?)
}

fn counts(stats: &StatsAnswer) -> Vec<(&'static str, String, Style)> {
    let of = |state: StateName| stats.states.iter().find(|(at, _)| *at == state).map_or(0, |(_, n)| *n);
    [
        ("dead", StateName::Dead, Style::Bad),
        ("waiting", StateName::Scheduled, Style::Waiting),
        ("running", StateName::Running, Style::Plain),
        ("recovered", StateName::Recovered, Style::Good),
        ("succeeded", StateName::Succeeded, Style::Good),
    ]
    .map(|(word, state, style)| (word, grouped(of(state)), style))
    .into()
}

/// 59,105
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 59_105, 1_234_567].map(grouped), ["0", "999", "1,000", "59,105", "1,234,567"]);
    }
}
