//! `/operations/new`: composes one action over many runs, and previews it over a frozen set.

use maud::{Markup, html};
use redrive_core::wire::{Canary, OneOrMany, OperationAction, OperationFilter, OperationRequest};
use redrive_engine::{Over, RunRef};

use super::components::{FilterChip, chips, choice, field, head, hidden, isolated, of, panel};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::page::{FormResult, PageContent, PageRequest};
use crate::app::App;
use crate::auth::Visitor;
use crate::capture;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{FromQuery, Param, ParamKind, RawQuery};

const CANARY_WAIT_MS: u64 = 5 * 60 * 1_000;
/// Runs that can be selected one by one: a page of them.
const NAMED_MAX: usize = 500;
const FILTERS: [&str; 16] = [
    "tenant",
    "state",
    "queue",
    "agent",
    "reason",
    "category",
    "pattern",
    "dead_because",
    "severity",
    "environment",
    "customer",
    "assigned_to",
    "held",
    "since",
    "until",
    "q",
];

/// A filter and an action, by name.
pub(crate) struct ComposeQuery {
    action: String,
    canary: String,
    filter: Vec<(String, String)>,
}

impl FromQuery for ComposeQuery {
    const PARAMS: &'static [Param] = &{
        const fn param(name: &'static str) -> Param {
            Param { name, about: "", kind: ParamKind::List }
        }
        [
            param("action"),
            param("canary"),
            param("tenant"),
            param("state"),
            param("queue"),
            param("agent"),
            param("reason"),
            param("category"),
            param("pattern"),
            param("dead_because"),
            param("severity"),
            param("environment"),
            param("customer"),
            param("assigned_to"),
            param("held"),
            param("since"),
            param("until"),
            param("q"),
        ]
    };

    fn read(given: &mut RawQuery) -> Result<Self> {
        given.drop_empty();
        let filter = FILTERS.iter().filter_map(|name| Some(((*name).to_owned(), given.take(name)?)));
        let filter = filter.collect();
        let action = given.take("action").unwrap_or_else(|| "replay".into());
        Ok(Self { action, canary: given.take("canary").unwrap_or_default(), filter })
    }
}

pub(crate) async fn get(_: App, visit: PageRequest<(), ComposeQuery>) -> Result<PageContent> {
    let ComposeQuery { action, canary, filter } = visit.query;
    content(&visit.who, &OperationDraft { action: action_of(&action)?, canary, filter, runs: Vec::new() })
}

/// From a list, with its selection; nothing is created yet.
pub(crate) async fn post(_: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let draft = OperationDraft::of(&form)?;
    if draft.runs.is_empty() && !form.has("all") {
        return Err(HttpProblem::new(Code::FilterRequired, "no run is selected: select runs, or all matching"));
    }
    content(&visit.who, &draft).map(FormResult::Show)
}

struct OperationDraft {
    action: OperationAction,
    canary: String,
    filter: Vec<(String, String)>,
    /// Selected one by one; empty: all that match the filter.
    runs: Vec<String>,
}

impl OperationDraft {
    fn of(form: &Form) -> Result<Self> {
        let action = action_of(form.one("action").unwrap_or_default())?;
        let filter = FILTERS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), form.one(&format!("filter.{name}"))?.to_owned())));
        let runs =
            if form.has("all") { Vec::new() } else { form.all("run").take(NAMED_MAX).map(str::to_owned).collect() };
        Ok(Self {
            action,
            canary: form.one("canary_size").unwrap_or_default().to_owned(),
            filter: filter.collect(),
            runs,
        })
    }
}

fn action_of(word: &str) -> Result<OperationAction> {
    word.parse().map_err(|_| HttpProblem::invalid_field("action", "is not an action of an operation"))
}

fn content(who: &Visitor, draft: &OperationDraft) -> Result<PageContent> {
    let verb = verb_of(draft.action);
    let of_what =
        if draft.runs.is_empty() { "all matching runs".to_owned() } else { of(draft.runs.len() as u64, "run") };
    let no_link = |(name, value): &(String, String)| FilterChip {
        name: name.replace('_', " "),
        value: value.clone(),
        without: super::links::runs(
            draft.filter.iter().filter(|(n, _)| n != name).map(|(n, v)| (n.as_str(), v.as_str())),
        ),
    };
    let which: Vec<FilterChip> = draft.filter.iter().map(no_link).collect();
    let body = html! {
        form.body id="operation" method="post" action="/operations" {
            (hidden("csrf", who.csrf()))
            (hidden("action", draft.action.as_str()))
            @for (name, value) in &draft.filter { (hidden(&format!("filter.{name}"), value)) }
            @for run in &draft.runs { (hidden("run", run)) }
            (fields_of(draft))
            label.field { span { "Reason" } input type="text" name="reason" required maxlength="2000" autofocus; }
            (field("rate_per_s", "Runs per second (empty: no limit)", "", ""))
        }
    };
    let main = html! {
        (head(
            &html! { (verb) " " (of_what) },
            &html! {
                "The preview shows which runs would move, which would not, and why. Nothing moves until you start it."
            },
            &html! { button.primary form="operation" { "Preview" } },
        ))
        div.bar { @if draft.runs.is_empty() { (chips(&which)) } @else {
            @for run in draft.runs.iter().take(10) { span.chip { (isolated(run)) } }
            @if draft.runs.len() > 10 { span.faint { "and " (draft.runs.len() - 10) " more" } }
        } }
        (panel("compose", "Action", &html! {}, &body))
    };
    Ok(PageContent::new(format!("{verb} {of_what}"), Tab::Operations, main))
}

fn verb_of(action: OperationAction) -> &'static str {
    match action {
        OperationAction::Replay => "Replay",
        OperationAction::Resolve => "Resolve",
        OperationAction::Discard => "Discard",
        OperationAction::Assign => "Assign",
        OperationAction::Reassign => "Reassign",
        OperationAction::Defer => "Defer",
        OperationAction::Merge => "Merge",
    }
}

fn fields_of(draft: &OperationDraft) -> Markup {
    match draft.action {
        OperationAction::Replay => html! {
            p.muted {
                "The canary is replayed first. The other runs follow only if it passes."
            }
            div.grid {
                (field("canary_size", "Canary size (empty: no canary)", &draft.canary, "5"))
                (choice("canary_share", "Allowed canary failures", &[("0", "none"), ("0.2", "20 %"), ("0.5", "50 %")], "0.2"))
                (field("instruction", "Additional instruction", "", ""))
                (field("model", "Another model", "", ""))
                (field("agent", "Another agent", "", ""))
                (field("queue", "Another queue", "", ""))
            }
            label.field { span { "Fix for every payload (JSON Patch)" }
                textarea.mono name="json_patch" rows="3" spellcheck="false" placeholder="[{\"op\":\"replace\",\"path\":\"/currency\",\"value\":\"EUR\"}]" {} }
        },
        OperationAction::Assign => field("to", "Assignee (empty: nobody)", "", ""),
        OperationAction::Reassign => {
            html! { (field("agent", "Another agent", "", "")) (field("queue", "Another queue", "", "")) }
        }
        OperationAction::Defer => {
            html! { label.field { span { "Not before (UTC)" } input type="datetime-local" name="until" required; } }
        }
        OperationAction::Merge => field("into", "Target run", "", "run id"),
        OperationAction::Resolve | OperationAction::Discard => html! {},
    }
}

/// Freezes the set as a preview, which has to be started.
pub(crate) async fn create(app: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let draft = OperationDraft::of(&form)?;
    let mut request = request(&draft, &form)?;
    let named = named(&draft.runs)?;
    // A selection may span tenants, which a request to the API can't express.
    request.all = !named.is_empty() || request.filter.is_empty();
    let mut new = capture::operation(request, visit.now, app.limits.body_max_bytes)?;
    if !named.is_empty() {
        new.over = Over::Runs(named);
    }
    let made = app.store.create_operation(new, visit.who.actor()).await?;
    Ok(FormResult::Go { to: format!("/operations/{}", made.id), done: Notice::Previewed })
}

fn request(draft: &OperationDraft, form: &Form) -> Result<OperationRequest> {
    let mut request = OperationRequest::new(draft.action);
    if draft.runs.is_empty() {
        request.filter = filter(&draft.filter)?;
    }
    request.dry_run = true;
    request.reason = form.text("reason");
    request.rate_per_s = form.number("rate_per_s")?;
    if draft.action == OperationAction::Replay {
        let share = form.number("canary_share")?.unwrap_or(0.0);
        let canary = |size| Canary { size, max_failure_share: share, wait_ms: CANARY_WAIT_MS };
        request.canary = form.number("canary_size")?.map(canary);
        request.instruction = form.text("instruction");
        request.model = form.label("model");
        let patch = form.one("json_patch").map(|text| crate::body::parse(text.as_bytes())).transpose()?;
        request.fix = patch.map(|json_patch| redrive_core::wire::Fix { json_patch: Some(json_patch), payload: None });
    }
    request.agent = form.label("agent");
    request.queue = form.id("queue")?;
    request.until = form.time("until")?;
    request.into = form.id("into")?;
    if draft.action == OperationAction::Assign {
        request.to = Some(form.label("to"));
    }
    Ok(request)
}

fn filter(pairs: &[(String, String)]) -> Result<OperationFilter> {
    let one = |name: &str| pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let many = |name: &str| one(name).map(OneOrMany::One);
    let bad = |name: &str| HttpProblem::invalid_field(name, "is invalid");
    let time = |name: &str| one(name).map(|text| text.parse().map_err(|_| bad(name))).transpose();
    Ok(OperationFilter {
        tenant: one("tenant").map(|text| text.parse().map_err(|_| HttpProblem::bad_id("tenant"))).transpose()?,
        state: many("state"),
        queue: many("queue"),
        agent: many("agent"),
        reason: many("reason"),
        category: many("category"),
        pattern: many("pattern"),
        dead_because: many("dead_because"),
        severity: many("severity"),
        environment: many("environment"),
        customer: many("customer"),
        assigned_to: many("assigned_to"),
        held: one("held").map(|text| text.parse().map_err(|_| bad("held"))).transpose()?,
        since: time("since")?,
        until: time("until")?,
        q: one("q"),
    })
}

/// `tenant/run_id`, as the list writes them.
fn named(runs: &[String]) -> Result<Vec<RunRef>> {
    let one = |text: &String| {
        let (tenant, run_id) = text.split_once('/')?;
        Some(RunRef { tenant: tenant.parse().ok()?, run_id: run_id.parse().ok()? })
    };
    runs.iter().map(|text| one(text).ok_or_else(|| HttpProblem::bad_id("run"))).collect()
}
