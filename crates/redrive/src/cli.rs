//! The command line: the list of commands. Each command's arguments and code are in its own file.

use clap::{Parser, Subcommand};

use crate::commands::{
    breakers, classify, demo, doctor, effects, generate, health, keys, operations, patterns, preflight, queues, runs,
    serve, spool, store, tenants,
};

/// The dead letter queue and recovery pipeline for AI agent work
#[derive(Debug, Parser)]
#[command(name = "redrive", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Commands that call a server read REDRIVE_URL and REDRIVE_KEY.\n\
                        Exit codes: 0 success, 1 refused or failed, 2 wrong usage.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demo: a server on a temporary folder with a simulated fleet at work
    Demo(demo::Args),
    /// Run the server
    Serve(serve::Args),
    /// List, inspect and triage runs
    #[command(subcommand)]
    Runs(runs::Command),
    /// Look up an effect in the ledger, or reconcile one with an unknown outcome
    #[command(subcommand)]
    Effects(effects::Command),
    /// List and triage patterns: failures with the same root cause
    #[command(subcommand)]
    Patterns(patterns::Command),
    /// Apply one action to many runs: preview, start, watch
    #[command(subcommand)]
    Operations(operations::Command),
    /// List, inspect and configure queues
    #[command(subcommand)]
    Queues(queues::Command),
    /// List tenants, show their health, open and close their breakers
    #[command(subcommand)]
    Tenants(tenants::Command),
    /// List breakers that are open or have seen failures; open and close them for all tenants
    Breakers(breakers::Args),
    /// Show health: what waits for a person, what for a worker
    Health(health::HealthArgs),
    /// Show hourly statistics
    Stats(health::StatsArgs),
    /// Send reports that SDKs spooled to disk while no server answered
    #[command(subcommand)]
    Spool(spool::Command),
    /// Create, list and revoke API keys, directly on the store
    #[command(subcommand)]
    Keys(keys::Command),
    /// Copy a store, or check one for damage
    #[command(subcommand)]
    Store(store::Command),
    /// Check the store and its environment; exits with 1 when something needs action
    Doctor(doctor::Args),
    /// Classify and group errors from a file, without a server
    Classify(classify::Args),
    /// Check whether a payload fits its model, without a server
    Preflight(preflight::Args),
    /// Print shell completions
    Completions(generate::CompletionsArgs),
    /// Print a generated file
    #[command(hide = true)]
    Generate(generate::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn valid_command_lines_are_parsed() {
        for line in [
            "redrive demo --seed 3 --speed 2.5 --listen 127.0.0.1:0",
            "redrive serve --listen 127.0.0.1:0 --data d --config c.toml --log-format json",
            "redrive runs list --state dead,review --reason timeout,x:mine --held --sort -received --all --json",
            "redrive runs list --since 2h --until 2026-01-01T00:00:00Z -q abc --limit 1000 --held=false",
            "redrive runs replay a b c --force --reason because",
            "redrive runs note a b text --tenant acme",
            "redrive effects show task-42:charge --json",
            "redrive effects reconcile step:mail --run task-42 --outcome not_done --reason gone",
            "redrive effects reconcile k --outcome committed --output {\"id\":7}",
            "redrive queues set mail --schedule-ms 1000,2000 --retry-by caller --preset external",
            "redrive keys create --role worker --tenant * --json",
            "redrive patterns list --state new,muted --sort open --reason bug -q key",
            "redrive patterns resolve p1 --in-version worker=abc --in-version prompt=7 --reason fixed",
            "redrive patterns mute p1 --until 8h",
            "redrive patterns assign p1 --nobody",
            "redrive patterns merge p1 p2",
            "redrive breakers --json",
            "redrive breakers open --provider openai --model gpt-5 --reason outage --until 2h",
            "redrive breakers close --model gpt-5 --reason back --json",
            "redrive breakers reset --tenant acme --reason back",
            "redrive tenants breaker reset acme --reason back --provider openai",
            "redrive tenants breaker show acme",
            "redrive tenants breaker open acme --reason freeze --until 2h --provider openai --model gpt-5",
            "redrive tenants breaker close acme --reason over --environment staging",
            "redrive operations create replay --where state=dead --where queue=mail --canary 10 --max-failure-share 0.1 --rate-per-s 50 --dry-run",
            "redrive operations create assign --id a --id b --tenant acme --to ops --reason mine",
            "redrive operations items op-1 --outcome failed,skipped --json",
            "redrive operations watch op-1 --every-ms 200",
            "redrive classify failures.jsonl --explain --config c.toml",
            "redrive preflight request.json --model gpt-5 --max-output-tokens 1000 --queue mail --config c.toml --json",
            "redrive runs show a --attempt 2 --diff --json",
            "redrive queues set mail --preflight enforce --payload {\"messages\":\"/m\"}",
            "redrive doctor --data d --deep --json",
            "redrive spool send --dir s --json",
            "redrive doctor --database-url postgres://h/db",
            "redrive serve --database-url postgres://u:p@h:5432/db?sslmode=verify-full",
            "redrive store copy --from ./data --to postgres://h/db --json",
            "redrive store check --data d --recount",
        ] {
            let read = Cli::try_parse_from(line.split(' '));
            assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "redrive runs replay a --force",
            "redrive runs replay",
            "redrive runs list --limit 0",
            "redrive runs list --limit 5 --all",
            "redrive runs show a/b",
            "redrive runs show a --diff",
            "redrive queues set mail --preflight maybe",
            "redrive queues set mail --payload {\"massages\":\"/m\"}",
            "redrive runs list --reason nonsense",
            "redrive effects reconcile k",
            "redrive effects reconcile k --outcome maybe",
            "redrive effects reconcile k --outcome committed --output {",
            "redrive effects show a/b",
            "redrive patterns resolve p1 --in-version abc",
            "redrive patterns assign p1",
            "redrive patterns merge p1",
            "redrive tenants breaker open acme",
            "redrive breakers open --reason outage",
            "redrive breakers close --model gpt-5",
            "redrive tenants breaker close acme --reason r --until 2h",
            "redrive operations create",
            "redrive operations create explode --all",
            "redrive operations create discard --all --id a",
            "redrive operations create replay --all --max-failure-share 0.1",
            "redrive operations items op-1 --outcome lost",
            "redrive keys create --role god",
            "redrive queues set mail --retry-by nobody",
            "redrive demo --speed 0",
            "redrive serve --data d --database-url postgres://h/db",
            "redrive keys list --database-url mysql://h/db",
            "redrive store copy --from a",
            "redrive demo --listen here",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
