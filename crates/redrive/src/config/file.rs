//! Parses the configuration file strictly. Every mistake is reported with its line and column.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use redrive_core::classify::user_rules::{UserRule, UserRules, compile};
use redrive_core::detect::OutputSchema;
use redrive_core::ids::QueueName;
use redrive_core::models::{ModelEntry, Models};
use redrive_core::policy::{Agents, Policies, PolicyLayer, RetryBy, TenantPolicy};
use redrive_core::text::{LABEL_MAX_BYTES, Label};
use redrive_core::wire::QueueSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

use super::reference::{fields, nearest};
use super::settings::ServerSection;
use crate::whole::{self, CONFIG_MAX_BYTES};

pub(super) const SECTIONS: [&str; 8] = ["server", "defaults", "tier", "queue", "tenant", "agent", "rule", "model"];

/// A checked configuration file.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) server: ServerSection,
    pub(crate) policies: Policies,
    pub(crate) queues: BTreeMap<QueueName, QueueSettings>,
    pub(crate) rules: Rules,
}

/// A queue's own keys, beside those of its policy.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct QueueKeys {
    /// Owner: a person or a team. `/v1/health` names queues without one.
    owner: Option<String>,
    description: Option<String>,
    /// Runbook: a URL or a text.
    runbook: Option<String>,
    /// What an operator should know before acting; shown with every run of the queue.
    instructions: Option<String>,
    /// Who executes retries: `worker` (leases the queue) or `caller` (the reporter's own broker or loop).
    retry_by: Option<RetryBy>,
    /// A file with a JSON Schema for outputs, relative to this file; the same as `output_schema` under `detect`.
    output_schema_file: Option<String>,
}

/// What an agent can do.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AgentKeys {
    /// Task types; `*` is all of them.
    can: Vec<String>,
}

/// A tenant's own keys, beside those of its policy.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct TenantKeys {
    /// The `[tier.NAME]` it belongs to.
    tier: Option<String>,
}

impl ConfigFile {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = whole::text(path, CONFIG_MAX_BYTES)?;
        Ok(Self::parse(ConfigText { path, text: &text })?)
    }

    pub(super) fn parse(source: ConfigText<'_>) -> Result<Self, Complaint> {
        let mut root = DeTable::parse(source.text).map_err(|error| source.complain_of(&error))?.into_inner();
        let mut file = Self::default();
        if let Some(value) = root.remove("server") {
            let mut section = Section::new(source, "server", value)?;
            file.server = section.take()?;
            file.server.check().map_err(|bad| section.complain_of_value(bad.key, bad.to_string()))?;
            section.finish()?;
        }
        if let Some(value) = root.remove("defaults") {
            file.policies.defaults = policy_only(source, "defaults", value)?;
        }
        for (name, value) in named(source, "tier", &mut root)? {
            let tier = name.get_ref().to_string();
            let policy = policy_only(source, &format!("tier.{tier}"), value)?;
            file.policies.tiers.insert(tier, policy);
        }
        for (name, value) in named(source, "queue", &mut root)? {
            file.queues.insert(id(source, &name)?, queue(source, &name, value)?);
        }
        for (name, value) in named(source, "tenant", &mut root)? {
            let tenant = tenant(source, &name, value, &file.policies.tiers)?;
            file.policies.tenants.insert(id(source, &name)?, tenant);
        }
        file.policies.agents = agents(source, &mut root)?;
        if let Some(value) = root.remove("rule") {
            file.rules = rules(source, value)?;
        }
        if let Some(value) = root.remove("model") {
            file.policies.models = models(source, value)?;
        }
        nothing_else(source, &root)?;
        Ok(file)
    }
}

type NamedSection<'a> = (Spanned<DeString<'a>>, Spanned<DeValue<'a>>);

/// The tables under `[kind.NAME]`.
fn named<'a>(source: ConfigText<'_>, kind: &str, root: &mut DeTable<'a>) -> Result<Vec<NamedSection<'a>>, Complaint> {
    let Some(value) = root.remove(kind) else { return Ok(Vec::new()) };
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok(table.into_iter().collect()),
        _ => Err(source.complain(&span, format!("`{kind}` has sections by name: write [{kind}.NAME]"))),
    }
}

fn id<T: FromStr<Err: std::fmt::Display>>(
    source: ConfigText<'_>,
    name: &Spanned<DeString<'_>>,
) -> Result<T, Complaint> {
    name.get_ref().parse().map_err(|bad| source.complain(&name.span(), format!("`{}`: {bad}", name.get_ref())))
}

fn policy_only(source: ConfigText<'_>, name: &str, value: Spanned<DeValue<'_>>) -> Result<PolicyLayer, Complaint> {
    let mut section = Section::new(source, name, value)?;
    let policy = section.take_policy()?;
    section.finish()?;
    Ok(policy)
}

fn queue(
    source: ConfigText<'_>,
    name: &Spanned<DeString<'_>>,
    value: Spanned<DeValue<'_>>,
) -> Result<QueueSettings, Complaint> {
    let mut section = Section::new(source, &format!("queue.{}", name.get_ref()), value)?;
    let own: QueueKeys = section.take()?;
    let mut policy = section.take_policy()?;
    if let Some(file) = &own.output_schema_file {
        let schema = schema_file(source, file);
        let schema = schema.map_err(|what| section.complain_of_value("output_schema_file", what))?;
        policy.detect.get_or_insert_default().output_schema = Some(schema);
    }
    if policy.limits.is_some() {
        let what = "`limits` belong to a tenant, its tier or the defaults: one figure over all its queues";
        return Err(section.complain_of_value("limits", what));
    }
    if own.owner.as_ref().is_some_and(|owner| owner.len() > LABEL_MAX_BYTES) {
        return Err(section.complain_of_value("owner", format!("`owner` is longer than {LABEL_MAX_BYTES} bytes")));
    }
    section.finish()?;
    Ok(QueueSettings {
        owner: own.owner.as_deref().map(Label::from),
        description: own.description,
        runbook: own.runbook,
        instructions: own.instructions,
        retry_by: own.retry_by.unwrap_or_default(),
        policy,
    })
}

fn tenant(
    source: ConfigText<'_>,
    name: &Spanned<DeString<'_>>,
    value: Spanned<DeValue<'_>>,
    tiers: &BTreeMap<String, PolicyLayer>,
) -> Result<TenantPolicy, Complaint> {
    let mut section = Section::new(source, &format!("tenant.{}", name.get_ref()), value)?;
    let TenantKeys { tier } = section.take()?;
    let policy = section.take_policy()?;
    if let Some(unknown) = tier.as_ref().filter(|tier| !tiers.contains_key(*tier)) {
        return Err(section.complain_of_value("tier", format!("there is no [tier.{unknown}]")));
    }
    section.finish()?;
    Ok(TenantPolicy { tier, policy })
}

fn agents(source: ConfigText<'_>, root: &mut DeTable<'_>) -> Result<Agents, Complaint> {
    let mut agents = BTreeMap::new();
    for (name, value) in named(source, "agent", root)? {
        let mut section = Section::new(source, &format!("agent.{}", name.get_ref()), value)?;
        let AgentKeys { can } = section.take()?;
        section.finish()?;
        let can = can.iter().map(|task| Label::from(task.as_str())).collect();
        agents.insert(Label::from(name.get_ref().as_ref()), can);
    }
    Ok(Agents::new(agents))
}

/// Reads a schema from its file.
fn schema_file(source: ConfigText<'_>, name: &str) -> Result<OutputSchema, String> {
    let path = source.path.parent().unwrap_or(Path::new("")).join(name);
    let text = whole::text(&path, CONFIG_MAX_BYTES).map_err(|error| format!("{error:#}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn nothing_else(source: ConfigText<'_>, root: &DeTable<'_>) -> Result<(), Complaint> {
    let Some(key) = root.keys().next() else { return Ok(()) };
    let hint = nearest(key.get_ref(), SECTIONS.into_iter())
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Err(source.complain(&key.span(), format!("unknown key `{}`{hint}", key.get_ref())))
}

pub(super) struct Section<'a> {
    source: ConfigText<'a>,
    /// As written: `queue.mail`.
    name: String,
    span: Range<usize>,
    left: DeTable<'a>,
    /// The position of each key and value.
    places: BTreeMap<String, (Range<usize>, Range<usize>)>,
    known: Vec<String>,
}

impl<'a> Section<'a> {
    pub(super) fn new(source: ConfigText<'a>, name: &str, value: Spanned<DeValue<'a>>) -> Result<Self, Complaint> {
        let span = value.span();
        let DeValue::Table(left) = value.into_inner() else {
            return Err(source.complain(&span, format!("`{name}` is a section: write [{name}]")));
        };
        let places = left.iter().map(|(key, value)| (key.get_ref().to_string(), (key.span(), value.span()))).collect();
        Ok(Self { source, name: name.into(), span, left, places, known: Vec::new() })
    }

    /// Takes the keys that are `T`'s.
    pub(super) fn take<T: DeserializeOwned + JsonSchema>(&mut self) -> Result<T, Complaint> {
        let mut own = DeTable::new();
        for field in fields::<T>() {
            if let Some((key, value)) = self.left.remove_entry(field.name.as_str()) {
                own.insert(key, value);
            }
            self.known.push(field.name);
        }
        let table = ValueDeserializer::from(Spanned::new(self.span.clone(), DeValue::Table(own)));
        T::deserialize(table).map_err(|error| self.source.complain_of(&error))
    }

    pub(super) fn take_policy(&mut self) -> Result<PolicyLayer, Complaint> {
        let policy: PolicyLayer = self.take()?;
        // A figure in a section of its own is pointed at by that section.
        let key = |field: &'static str| field.split('.').next().unwrap_or(field);
        policy.check().map_err(|bad| self.complain_of_value(key(bad.field), bad.to_string()))?;
        Ok(policy)
    }

    pub(super) fn complain_of_value(&self, key: &str, what: impl Into<String>) -> Complaint {
        self.source.complain(self.places.get(key).map_or(&self.span, |(_, value)| value), what)
    }

    /// Refuses unknown keys.
    pub(super) fn finish(self) -> Result<(), Complaint> {
        let Some(key) = self.left.keys().next() else { return Ok(()) };
        let known = self.known.iter().map(String::as_str);
        let hint = nearest(key.get_ref(), known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Err(self.source.complain(&key.span(), format!("unknown key `{}` in [{}]{hint}", key.get_ref(), self.name)))
    }
}

/// The rules of a file, in their order; none where it has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules(Option<Arc<UserRules>>);

impl Rules {
    pub(crate) fn compiled(&self) -> Option<Arc<UserRules>> {
        self.0.clone()
    }
}

/// The tables under `[[rule]]`. One that is wrong is named by its line, and nothing starts.
pub(super) fn rules(source: ConfigText<'_>, value: Spanned<DeValue<'_>>) -> Result<Rules, Complaint> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(source.complain(&span, "`rule` is a list of sections: write [[rule]]"));
    };
    let places: Vec<_> = tables.iter().map(Spanned::span).collect();
    let mut rules = Vec::new();
    for table in tables {
        let span = table.span();
        let read = UserRule::deserialize(ValueDeserializer::from(table));
        rules.push(read.map_err(|error| {
            let complaint = source.complain_of(&error);
            if error.span().is_some() { complaint } else { source.complain(&span, error.message().to_owned()) }
        })?);
    }
    let compiled = compile(rules).map_err(|error| {
        let place = places.get(error.index).unwrap_or(&span);
        // One line, whatever an expression's parser draws.
        source.complain(place, error.message.split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    Ok(Rules(Some(Arc::new(compiled))))
}

/// The tables under `[[model]]`. One that is wrong is named by its line, and nothing starts.
pub(super) fn models(source: ConfigText<'_>, value: Spanned<DeValue<'_>>) -> Result<Models, Complaint> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(source.complain(&span, "`model` is a list of sections: write [[model]]"));
    };
    let mut entries = Vec::new();
    for table in tables {
        let mut section = Section::new(source, "model", table)?;
        let entry: ModelEntry = section.take()?;
        entry.check().map_err(|bad| section.complain_of_value(bad.field, bad.to_string()))?;
        section.finish()?;
        entries.push(entry);
    }
    Models::with(entries).map_err(|bad| source.complain(&span, bad.to_string()))
}

/// One line: the file, the line, the column, what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: PathBuf,
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.what)
    }
}

impl std::error::Error for Complaint {}

/// The text a complaint points into.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigText<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl ConfigText<'_> {
    /// A complaint about what begins at `span`; lines and columns count from 1.
    pub(super) fn complain(&self, span: &Range<usize>, what: impl Into<String>) -> Complaint {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Complaint {
            path: self.path.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.into(),
        }
    }

    pub(super) fn complain_of(&self, error: &toml::de::Error) -> Complaint {
        // Only the message: the parser's own rendering spans several lines.
        let what = error.message().lines().collect::<Vec<_>>().join("; ");
        self.complain(&error.span().unwrap_or(0..0), what)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
