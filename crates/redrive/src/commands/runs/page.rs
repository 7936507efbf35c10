//! One run as text: what happened, the advice, the facts, and suggested next commands.

use std::io;

use redrive_core::ids::Tenant;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{AttemptView, RunDetail, StepStatus};
use redrive_core::wording::{advice, happened};

use crate::commands::runs::show::{cut, error_kind};
use crate::escape;
use crate::out::{Printer, Style, duration, relative, step_style, style_of};

/// How much of a long text is shown without `--full`.
const FOLDED_LINES: usize = 6;

pub(crate) struct RunPage<'a> {
    pub(crate) run: &'a RunDetail,
    pub(crate) now: Timestamp,
    pub(crate) full: bool,
    /// As named by the caller, so that the commands shown work as pasted.
    pub(crate) tenant: Option<&'a Tenant>,
}

impl RunPage<'_> {
    pub(crate) fn print(&self, out: &mut Printer) -> io::Result<()> {
        self.headline(out)?;
        self.verdict(out)?;
        self.review(out)?;
        self.facts(out)?;
        self.attempts(out)?;
        self.error(out)?;
        self.steps(out)?;
        self.payload(out)?;
        self.history(out)?;
        self.older(out)?;
        self.next(out)
    }

    /// The command for older entries that this page leaves out.
    fn older(&self, out: &mut Printer) -> io::Result<()> {
        let body = &self.run.body;
        let cursors = [
            ("attempts", &body.next_attempts_cursor),
            ("steps", &body.next_steps_cursor),
            ("history", &body.next_history_cursor),
        ];
        let given: String = cursors
            .iter()
            .filter_map(|(list, cursor)| Some(format!(" --{list}-cursor {}", escape::line(cursor.as_deref()?))))
            .collect();
        if given.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant.map_or_else(String::new, |tenant| format!(" --tenant {tenant}"));
        heading(out, "OLDER")?;
        out.line(format_args!("  redrive runs show {}{tenant}{given}", self.run.summary.run_id))
    }

    fn headline(&self, out: &mut Printer) -> io::Result<()> {
        let run = &self.run.summary;
        let mut state = run.state.to_string();
        if let Some(because) = run.dead_because {
            state = format!("{state} ({because})");
        }
        let id = out.styled(Style::Heading, run.run_id.as_str());
        let state = out.styled(style_of(run.state), &state);
        out.line(format_args!("{id}  {state}  tenant {}, queue {}", run.tenant, run.queue))
    }

    fn verdict(&self, out: &mut Printer) -> io::Result<()> {
        out.line("")?;
        for sentence in happened(self.run) {
            out.line(escape::line(&sentence))?;
        }
        if let Some(verdict) = self.run.body.verdict.as_ref().filter(|_| self.run.summary.state == StateName::Dead) {
            out.line(format_args!("Advised: {}", advice(verdict.recommended_action)))?;
        }
        if let Some(instructions) = &self.run.body.instructions {
            out.line("\nInstructions of the queue:")?;
            for line in escape::lines(instructions) {
                out.line(format_args!("  {line}"))?;
            }
        }
        if let Some(runbook) = &self.run.body.runbook {
            out.line(format_args!("Runbook: {}", escape::line(runbook)))?;
        }
        Ok(())
    }

    fn review(&self, out: &mut Printer) -> io::Result<()> {
        let Some(review) = &self.run.body.review else { return Ok(()) };
        heading(out, "IN REVIEW")?;
        let asked = format!("asked by {}, {}", review.asked_by, relative(review.asked_at, self.now));
        out.line(format_args!("  {}", escape::line(&asked)))?;
        out.line(format_args!("  plan {}, expires {}", review.plan_hash, relative(review.expires_at, self.now)))?;
        match &review.proposed {
            Some(proposed) => self.folded(out, proposed.get()),
            None => Ok(()),
        }
    }

    fn facts(&self, out: &mut Printer) -> io::Result<()> {
        let (run, body) = (&self.run.summary, &self.run.body);
        heading(out, "FACTS")?;
        let time = |at: Timestamp| format!("{} ({at})", relative(at, self.now));
        let text = |value: &Option<redrive_core::text::Label>| value.as_ref().map(ToString::to_string);
        let facts = [
            ("reason", run.reason.as_ref().map(|r| format!("{r}, {}", run.category.map_or("", |c| c.as_str())))),
            ("next attempt", run.next_attempt_at.map(time)),
            ("held by", text(&run.held_by)),
            ("deferred until", run.deferred_until.map(time)),
            ("assigned to", text(&run.assigned_to)),
            ("merged into", run.merged_into.as_ref().map(ToString::to_string)),
            ("received", Some(time(run.received_at))),
            ("updated", Some(time(run.updated_at))),
            ("agent", text(&run.agent)),
            ("task type", text(&run.task_type)),
            ("severity", Some(run.severity.to_string())),
            ("environment", Some(run.environment.to_string())),
            ("customer", text(&run.customer)),
            ("model", text(&run.model)),
            ("provider", text(&run.provider)),
            ("tool", text(&run.tool)),
            ("step", text(&run.step)),
            ("idempotency key", run.idempotency_key.as_ref().map(ToString::to_string)),
            ("pattern", run.pattern.as_ref().map(|id| format!("{id}  {}", run.template.as_deref().unwrap_or("")))),
            ("replays", (run.replays > 0).then(|| run.replays.to_string())),
            ("resumable", body.resumable.then(|| "yes".into())),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                out.line(format_args!("  {name:<16}{}", escape::line(&value)))?;
            }
        }
        for (name, link) in &body.links {
            out.line(format_args!("  {:<16}{}", escape::line(name), escape::line(&link.decode())))?;
        }
        Ok(())
    }

    fn attempts(&self, out: &mut Printer) -> io::Result<()> {
        if self.run.body.attempts.is_empty() {
            return Ok(());
        }
        heading(out, "ATTEMPTS")?;
        for attempt in &self.run.body.attempts {
            let line = self.attempt(attempt);
            out.line(format_args!("  {}", escape::line(&line)))?;
        }
        Ok(())
    }

    fn attempt(&self, attempt: &AttemptView) -> String {
        let from = attempt.started_at.clone().or_else(|| attempt.began_at.map(Into::into));
        let took = from.zip(attempt.ended_at.as_ref()).and_then(|(from, to)| to.since(&from));
        let took = took.map_or_else(String::new, |took| format!(", took {}", duration(took)));
        let worker = attempt.worker.as_ref().map_or_else(String::new, |worker| format!(" on {worker}"));
        let replay = if attempt.replay { ", a replay" } else { "" };
        let what = match (&attempt.verdict, &attempt.error) {
            (Some(verdict), Some(error)) => format!(": {}: {}", verdict.reason, cut(&error.message.decode())),
            (Some(verdict), None) => format!(": {}", verdict.reason),
            (None, Some(error)) => format!(": {}", cut(&error.message.decode())),
            (None, None) => String::new(),
        };
        let at = relative(attempt.recorded_at, self.now);
        format!("#{:<3} {at:<12} {}{worker}{took}{replay}{what}", attempt.attempt, attempt.outcome)
    }

    fn error(&self, out: &mut Printer) -> io::Result<()> {
        let last = self.run.body.attempts.iter().rev().find_map(|attempt| attempt.error.as_ref());
        let Some(error) = last else { return Ok(()) };
        heading(out, "LAST ERROR")?;
        if let Some(kind) = error_kind(error) {
            out.line(format_args!("  {}", escape::line(&kind)))?;
        }
        self.folded(out, &error.message.decode())?;
        match &error.detail {
            Some(detail) => self.folded(out, &detail.decode()),
            None => Ok(()),
        }
    }

    fn steps(&self, out: &mut Printer) -> io::Result<()> {
        if self.run.body.steps.is_empty() {
            return Ok(());
        }
        heading(out, "STEPS")?;
        for step in &self.run.body.steps {
            let status = out.styled(step_style(step.status), &format!("{:<11}", step.status.as_str()));
            let effect = if step.effect { ", an effect" } else { "" };
            let outcome = step.outcome.map_or_else(String::new, |outcome| format!(", {outcome}"));
            let name = escape::line(step.name.as_str());
            out.line(format_args!("  {status} {name} (key {}, attempt {}{effect}{outcome})", step.key, step.attempt))?;
            if let Some(check) = step.check.as_ref().filter(|_| step.status == StepStatus::Unknown) {
                out.line(format_args!("              check: {}", escape::line(&check.decode())))?;
            }
        }
        Ok(())
    }

    fn payload(&self, out: &mut Printer) -> io::Result<()> {
        let body = &self.run.body;
        let revision = self.run.summary.revision;
        if let Some(payload) = &body.payload {
            heading(out, &format!("PAYLOAD, revision {revision}"))?;
            self.folded(out, payload.get())?;
        } else if let Some(bytes) = &body.payload_base64 {
            heading(out, &format!("PAYLOAD, revision {revision}, base64"))?;
            self.folded(out, bytes)?;
        } else if let Some(omitted) = &body.payload_omitted {
            heading(out, "PAYLOAD")?;
            out.line(format_args!("  {} bytes, not sent: it can't be replayed from here", omitted.bytes))?;
        }
        if let Some(output) = &body.output {
            heading(out, "OUTPUT")?;
            self.folded(out, output.get())?;
        }
        Ok(())
    }

    fn history(&self, out: &mut Printer) -> io::Result<()> {
        if self.run.body.history.is_empty() {
            return Ok(());
        }
        heading(out, "HISTORY")?;
        for entry in &self.run.body.history {
            let moved = match (entry.from, entry.to) {
                (Some(from), Some(to)) if from != to => format!(", {from} → {to}"),
                (None, Some(to)) => format!(", → {to}"),
                _ => String::new(),
            };
            let note = entry.note.as_ref().map_or_else(String::new, |note| format!(": {}", note.decode()));
            let at = relative(entry.at, self.now);
            let line = format!("{at:<12} {} by {}{moved}{note}", entry.event, entry.actor);
            out.line(format_args!("  {}", escape::line(&line)))?;
        }
        Ok(())
    }

    fn next(&self, out: &mut Printer) -> io::Result<()> {
        let verbs: &[&str] = match self.run.summary.state {
            StateName::Dead => &["plan", "replay", "resolve", "discard", "note"],
            StateName::Review => &["plan", "approve", "reject", "note"],
            StateName::Scheduled => &["replay", "cancel", "note"],
            StateName::Running => &["cancel", "note"],
            StateName::Succeeded | StateName::Recovered | StateName::Resolved | StateName::Discarded => {
                &["replay --force", "note"]
            }
            StateName::Merged => &["note"],
        };
        let tenant = self.tenant.map_or_else(String::new, |tenant| format!(" --tenant {tenant}"));
        heading(out, "NEXT")?;
        for verb in verbs {
            let more = match *verb {
                "plan" => "",
                "note" => " '…'",
                "approve" => " --plan-hash … --reason '…'",
                _ => " --reason '…'",
            };
            out.line(format_args!("  redrive runs {verb} {}{tenant}{more}", self.run.summary.run_id))?;
        }
        Ok(())
    }

    fn folded(&self, out: &mut Printer, text: &str) -> io::Result<()> {
        let most = if self.full { usize::MAX } else { FOLDED_LINES };
        for line in text.lines().take(most) {
            let shown = if self.full { line.to_owned() } else { cut(line) };
            out.line(format_args!("  {}", escape::line(&shown)))?;
        }
        let hidden = text.lines().skip(most).count();
        if hidden > 0 { out.line(format_args!("  … {hidden} more lines (--full shows all)")) } else { Ok(()) }
    }
}

fn heading(out: &mut Printer, title: &str) -> io::Result<()> {
    let title = out.styled(Style::Heading, title);
    out.line(format_args!("\n{title}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::tests::buffer;

    fn dead_letter() -> RunDetail {
        let text = r#"{
            "run_id":"task-42","tenant":"acme","queue":"mail","agent":"writer\u001b[31m","task_type":null,"state":"dead",
            "attempt":2,"revision":1,"reason":"auth_failed","category":"permanent","dead_because":"permanent",
            "severity":"high","environment":"production","customer":null,"model":"gpt-5","provider":null,"tool":null,
            "step":null,"idempotency_key":null,"pattern":"p1","template":"Invalid key ‹n›",
            "received_at":"2026-01-01T11:00:00Z","updated_at":"2026-01-01T11:59:30Z","next_attempt_at":null,"held_by":null,
            "deferred_until":null,"merged_into":null,"replays":0,
            "payload":{"n": 1.10},"content_type":null,"headers":{},"order_key":null,"versions":{},"destination":null,
            "resumable":false,
            "attempts":[{"attempt":2,"outcome":"failed","recorded_at":"2026-01-01T11:59:30Z","began_at":null,
                "started_at":"2026-01-01T11:59:20Z","ended_at":"2026-01-01T11:59:25Z","worker":"w1","revision":1,
                "replay":true,"error":{"type":"AuthError","message":"Invalid key 7","detail":"1\n2\n3\n4\n5\n6\n7\n8",
                "http_status":401,"headers":{}},"response":null,"partial_output":null,"finish_reason":null,"usage":null,
                "model":null,"provider":null,"tool":null,"step":null,"versions":{},"fingerprint":"1-0","verdict":null,
                "late":null}],
            "steps":[{"name":"load","key":"k","effect":true,"status":"committed","output":null,"attempt":1,
                "at":"2026-01-01T11:00:00Z"}],
            "history":[{"at":"2026-01-01T11:58:00Z","actor":"key-1","event":"replay","from":"dead","to":"scheduled",
                "note":"rotated\nit"}],
            "verdict":{"action":"dead_letter","reason":"auth_failed","category":"permanent","rule":"r",
                "why":"The key was refused.","recommended_action":"fix_and_replay","next_attempt_at":null,"held_by":null,
                "dead_because":"permanent","changes":[],"target":{"agent":null,"model":null,"queue":null}},
            "links":{"trace":"https://t/1"},"replayable":true,"instructions":"Ask finance first."}"#;
        serde_json::from_str(text).unwrap()
    }

    fn printed(full: bool) -> String {
        let run = dead_letter();
        let (shared, mut out) = buffer();
        let page = RunPage { run: &run, now: "2026-01-01T12:00:00Z".parse().unwrap(), full, tenant: None };
        page.print(&mut out).unwrap();
        shared.text()
    }

    #[test]
    fn dead_letter_page_shows_cause_advice_and_next_commands() {
        insta::assert_snapshot!(printed(false), @r#"
        task-42  dead (permanent)  tenant acme, queue mail

        The key was refused.
        Advised: fix the cause, then replay

        Instructions of the queue:
          Ask finance first.

        FACTS
          reason          auth_failed, permanent
          received        60 min ago (2026-01-01T11:00:00.000Z)
          updated         30 s ago (2026-01-01T11:59:30.000Z)
          agent           writer\u{1b}[31m
          severity        high
          environment     production
          model           gpt-5
          pattern         p1  Invalid key ‹n›
          trace           https://t/1

        ATTEMPTS
          #2   30 s ago     failed on w1, took 5 s, a replay: Invalid key 7

        LAST ERROR
          AuthError, HTTP 401
          Invalid key 7
          1
          2
          3
          4
          5
          6
          … 2 more lines (--full shows all)

        STEPS
          committed   load (key k, attempt 1, an effect)

        PAYLOAD, revision 1
          {"n": 1.10}

        HISTORY
          2 min ago    replay by key-1, dead → scheduled: rotated\nit

        NEXT
          redrive runs plan task-42
          redrive runs replay task-42 --reason '…'
          redrive runs resolve task-42 --reason '…'
          redrive runs discard task-42 --reason '…'
          redrive runs note task-42 '…'
        "#);
    }

    #[test]
    fn in_full_nothing_is_folded() {
        let page = printed(true);
        assert!(page.contains("\n  8\n") && !page.contains("more lines"), "{page}");
    }

    #[test]
    fn recovered_run_page_starts_with_the_recovery() {
        let mut run = dead_letter();
        run.summary.state = StateName::Recovered;
        assert_eq!(happened(&run), ["It recovered on attempt 2.", "Before that: The key was refused."]);
    }
}
