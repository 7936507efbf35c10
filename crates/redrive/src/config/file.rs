//! The file as a whole: which sections there are, and what each holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use redrive_core::detect::OutputSchema;
use redrive_core::ids::QueueName;
use redrive_core::policy::{Agents, Policies, PolicyLayer, RetryBy, TenantPolicy};
use redrive_core::text::{LABEL_MAX_BYTES, Label};
use redrive_core::wire::QueueSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::complaint::{Complaint, Source};
use super::fields::nearest;
use super::models::models;
use super::rules::{Rules, rules};
use super::section::Section;
use super::settings::ServerSection;
use crate::whole::{self, CONFIG_MAX_BYTES};

pub(super) const SECTIONS: [&str; 8] = ["server", "defaults", "tier", "queue", "tenant", "agent", "rule", "model"];

/// What a file says, checked.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) server: ServerSection,
    pub(crate) policies: Policies,
    pub(crate) queues: BTreeMap<QueueName, QueueSettings>,
    pub(crate) rules: Rules,
}

/// A queue's own keys; its policy's figures stand beside them.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct QueueKeys {
    /// Whose it is: a person or a team. A queue without one is named in `/v1/health`.
    owner: Option<String>,
    description: Option<String>,
    /// Where it is written what to do.
    runbook: Option<String>,
    /// What an operator should know before acting; shown with every run of the queue.
    instructions: Option<String>,
    /// Who executes retries: `worker` (whoever leases the queue) or `caller` (the reporter's own broker or loop).
    retry_by: Option<RetryBy>,
    /// A file with a JSON Schema for outputs, from where this file is; the same as `output_schema` under `detect`.
    output_schema_file: Option<String>,
}

/// What an agent can do.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AgentKeys {
    /// Task types; `*` is all of them.
    can: Vec<String>,
}

/// A tenant's own keys; its policy's figures stand beside them.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct TenantKeys {
    /// The `[tier.NAME]` it belongs to.
    tier: Option<String>,
}

impl ConfigFile {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = whole::text(path, CONFIG_MAX_BYTES)?;
        Ok(Self::parse(Source { path, text: &text })?)
    }

    pub(super) fn parse(source: Source<'_>) -> Result<Self, Complaint> {
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

type Named<'a> = (Spanned<DeString<'a>>, Spanned<DeValue<'a>>);

/// The tables under `[kind.NAME]`.
fn named<'a>(source: Source<'_>, kind: &str, root: &mut DeTable<'a>) -> Result<Vec<Named<'a>>, Complaint> {
    let Some(value) = root.remove(kind) else { return Ok(Vec::new()) };
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok(table.into_iter().collect()),
        _ => Err(source.complain(&span, format!("`{kind}` has sections by name: write [{kind}.NAME]"))),
    }
}

fn id<T: FromStr<Err: std::fmt::Display>>(source: Source<'_>, name: &Spanned<DeString<'_>>) -> Result<T, Complaint> {
    name.get_ref().parse().map_err(|bad| source.complain(&name.span(), format!("`{}`: {bad}", name.get_ref())))
}

fn policy_only(source: Source<'_>, name: &str, value: Spanned<DeValue<'_>>) -> Result<PolicyLayer, Complaint> {
    let mut section = Section::new(source, name, value)?;
    let policy = section.take_policy()?;
    section.finish()?;
    Ok(policy)
}

fn queue(
    source: Source<'_>,
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
    source: Source<'_>,
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

fn agents(source: Source<'_>, root: &mut DeTable<'_>) -> Result<Agents, Complaint> {
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

/// A schema that lies in a file of its own.
fn schema_file(source: Source<'_>, name: &str) -> Result<OutputSchema, String> {
    let path = source.path.parent().unwrap_or(Path::new("")).join(name);
    let text = whole::text(&path, CONFIG_MAX_BYTES).map_err(|error| format!("{error:#}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn nothing_else(source: Source<'_>, root: &DeTable<'_>) -> Result<(), Complaint> {
    let Some(key) = root.keys().next() else { return Ok(()) };
    let hint = nearest(key.get_ref(), SECTIONS.into_iter())
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Err(source.complain(&key.span(), format!("unknown key `{}`{hint}", key.get_ref())))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
