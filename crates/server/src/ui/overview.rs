//! The front page: what waits for a person, what it has in common, and how to go on.

use http::HeaderMap;
use http::header::HOST;
use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::{PatternView, RunSummary, Sort, StatsAnswer};
use redrive_store::{PageCall, PatternsCall, RunFilter, StatsCall, TenantScope};

use super::html::{Html, template};
use super::shell;
use super::when::ago;
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;

const RUNS_SHOWN: u32 = 12;
const PATTERNS_SHOWN: usize = 8;
/// How many are looked at to find the largest.
const PATTERNS_READ: u32 = 500;
const SPAN_MS: u64 = 30 * DAY_MS;

pub(crate) async fn get(app: App, who: Visitor, headers: HeaderMap) -> Result<Html> {
    let scope = who.scope(None)?;
    let seen = Seen::read(&app, &scope).await?;
    let main = seen.head().add(&seen.figures());
    let left = Html::new().raw("<div class=\"stack\">").add(&seen.patterns()).add(&seen.runs()).raw("</div>");
    let main = main.raw("<div class=\"cols\">").add(&left).add(&go_on(&address(&headers), &seen)).raw("</div>");
    Ok(shell::page("Overview", &main))
}

/// One look at the store.
struct Seen {
    now: Timestamp,
    stats: StatsAnswer,
    dead: Vec<RunSummary>,
    /// Those with most open runs first.
    patterns: Vec<PatternView>,
}

impl Seen {
    async fn read(app: &App, scope: &TenantScope) -> Result<Self> {
        let now = app.store.now();
        let call = StatsCall { since: Some(now.minus_ms(SPAN_MS)), ..StatsCall::default() };
        let filter = RunFilter { states: vec![StateName::Dead], ..RunFilter::default() };
        let page = PageCall { sort: Sort::NewestFirst, limit: RUNS_SHOWN, cursor: None, count: false };
        let (stats, runs, patterns) = tokio::join!(
            app.store.stats(scope, call),
            app.store.runs(scope, filter, page),
            app.store.patterns(scope, PatternsCall::first(PATTERNS_READ))
        );
        let mut patterns = patterns?.patterns;
        patterns.retain(|pattern| pattern.open > 0);
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.open));
        Ok(Self { now, stats: stats?, dead: runs?.runs, patterns })
    }

    fn of(&self, state: StateName) -> u64 {
        self.stats.states.iter().find(|(at, _)| *at == state).map_or(0, |(_, n)| *n)
    }

    fn head(&self) -> Html {
        let waiting = self.of(StateName::Dead) + self.of(StateName::Review);
        let recovered: u64 = self.stats.hours.iter().map(|hour| hour.recovered).sum();
        let html = Html::new().raw("<div class=\"head\"><div><h1>").text(headline(waiting, self.patterns.first()));
        let html = html.raw("</h1><p>Everything else goes by itself: ").text(grouped(self.of(StateName::Scheduled)));
        let html = html.raw(" waiting for a retry, ").text(grouped(self.of(StateName::Running)));
        let html = html.raw(" running, ").text(grouped(recovered)).raw(" recovered in the last 30 days.</p></div>");
        html.raw("<a class=\"button primary\" href=\"#go-on\">Replay one</a></div>")
    }

    fn figures(&self) -> Html {
        let figure = |html: Html, (word, state, note): (&'static str, StateName, &'static str)| {
            let html = html.raw("<a href=\"#dead-letters\"><span class=\"muted\">").raw(word).raw("</span><b>");
            html.text(grouped(self.of(state))).raw("</b><span class=\"faint\">").raw(note).raw("</span></a>")
        };
        let figures = [
            ("Dead letters", StateName::Dead, "a person decides"),
            ("Waiting for retry", StateName::Scheduled, "by itself"),
            ("Recovered", StateName::Recovered, "failed, then succeeded"),
            ("Succeeded", StateName::Succeeded, "at the first attempt"),
        ];
        Html::new().raw("<div class=\"figures\">").each(figures, figure).raw("</div>")
    }

    fn patterns(&self) -> Html {
        let html = Html::new().raw("<section class=\"panel\"><header><h2>Largest root causes</h2><span class=\"end\">");
        let html =
            html.text(self.patterns.len()).raw(" with open runs</span></header><div class=\"scroll\"><table><tbody>");
        let row = |html: Html, pattern: &PatternView| {
            let html = html
                .raw("<tr><td class=\"num lead\"><b>")
                .text(grouped(pattern.open))
                .raw("</b></td><td><span class=\"badge\">");
            let html = html.text(pattern.reason.as_str()).raw("</span> <span class=\"muted\">").text(pattern.category);
            let html = html.raw("</span><div class=\"template\">").add(&template(&first_line(&pattern.template)));
            let html = html.raw("</div></td><td class=\"num wide\">").text(grouped(pattern.count));
            html.raw("<div class=\"faint\">failures</div></td><td class=\"num faint\">")
                .add(&ago(pattern.last_seen, self.now))
                .raw("</td></tr>")
        };
        html.each(self.patterns.iter().take(PATTERNS_SHOWN), row).raw("</tbody></table></div></section>")
    }

    fn runs(&self) -> Html {
        let html = Html::new().raw("<section class=\"panel\" id=\"dead-letters\"><header><h2>Latest dead letters</h2>");
        let html =
            html.raw("<span class=\"end\">").text(grouped(self.of(StateName::Dead))).raw(" in all</span></header>");
        let html = html.raw("<div class=\"scroll\"><table><tbody>");
        html.each(&self.dead, |html, run| self.run(html, run)).raw("</tbody></table></div></section>")
    }

    fn run(&self, html: Html, run: &RunSummary) -> Html {
        let because = run.dead_because.map_or("dead", |because| because.as_str());
        let reason = run.reason.as_ref().map_or("", |reason| reason.as_str());
        let agent = run.agent.as_ref().map_or("", |agent| agent.as_str());
        let html =
            html.raw("<tr><td><span class=\"badge dead\">● ").text(because).raw("</span> <span class=\"muted\">");
        let html = html.text(reason).raw("</span><div class=\"template\">");
        let html = html.add(&template(&first_line(run.template.as_deref().unwrap_or_default())));
        let html = html.raw("</div><div class=\"faint\"><code>").text(&run.run_id).raw("</code> · ").text(&run.tenant);
        let html = html.raw(" · ").text(agent).raw("</div></td><td class=\"num faint\">");
        html.add(&ago(run.updated_at, self.now)).raw("</td></tr>")
    }
}

fn headline(waiting: u64, largest: Option<&PatternView>) -> String {
    match (waiting, largest) {
        (0, _) => "Nothing waits for a person.".into(),
        (1, _) => "One run waits for a person.".into(),
        (waiting, Some(largest)) if largest.open > 1 => {
            let (waiting, open) = (grouped(waiting), grouped(largest.open));
            format!("{waiting} runs wait for a person. One fix would clear {open} of them.")
        }
        (waiting, _) => format!("{} runs wait for a person.", grouped(waiting)),
    }
}

/// The commands to go on with. The key itself was printed where the link was; nothing here knows it.
fn go_on(address: &str, seen: &Seen) -> Html {
    let run = seen.dead.first();
    let html = Html::new().raw(
        "<section class=\"panel\" id=\"go-on\"><header><h2>Go on from a terminal</h2></header><div class=\"body\">",
    );
    let html = html.raw(
        "<span class=\"muted\">The address, and the key that was printed with your link</span><pre>export REDRIVE_URL=",
    );
    let html = html
        .text(address)
        .raw("\nexport REDRIVE_KEY=rdk_…</pre><p class=\"muted\">What waits, and what it has in common</p><pre>");
    let html = html.raw("redrive runs list --state dead\nredrive patterns list</pre>");
    let html = match run {
        Some(run) => {
            let html =
                html.raw("<p class=\"muted\">Read the latest, then send it round again</p><pre>redrive runs show ");
            let html = html.text(&run.run_id).raw(" \\\n  --tenant ").text(&run.tenant).raw("\nredrive runs replay ");
            html.text(&run.run_id).raw(" \\\n  --tenant ").text(&run.tenant).raw(" --reason \"fixed\"</pre>")
        }
        None => html,
    };
    let html =
        html.raw("<p class=\"muted\">Report a failure of your own</p><pre>curl \"$REDRIVE_URL/v1/failures\" \\\n");
    let html = html.raw(
        "  -H \"Authorization: Bearer $REDRIVE_KEY\" \\\n  --json &#39;{\"run_id\":\"task-1\",\"tenant\":\"acme\",\n",
    );
    html.raw("    \"error\":{\"message\":\"Request timed out\"}}&#39;</pre></div></section>")
}

/// As the browser reached us; a name that no host has is not repeated.
fn address(headers: &HeaderMap) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".:-[]".contains(&b);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| host.bytes().all(plain));
    let tls = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    format!("{}://{}", if tls { "https" } else { "http" }, host.unwrap_or("127.0.0.1:7070"))
}

const LINE_MAX_CHARS: usize = 160;

/// Enough to know it by.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(LINE_MAX_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

/// 59,105
fn grouped(n: u64) -> String {
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
