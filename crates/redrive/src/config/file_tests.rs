use redrive_core::policy::Preset;

use super::*;

fn parse(text: &str) -> Result<ConfigFile, String> {
    ConfigFile::parse(ConfigText { path: Path::new("redrive.toml"), text }).map_err(|complaint| complaint.to_string())
}

fn refused(text: &str) -> String {
    parse(text).expect_err("it should have been refused")
}

#[test]
fn an_empty_file_says_nothing() {
    let file = parse("").unwrap();
    assert!(file.queues.is_empty() && file.rules.compiled().is_none());
    assert_eq!((file.server, file.policies), Default::default());
}

#[test]
fn policy_fields_are_flat_beside_queue_keys() {
    let file =
        parse("[queue.mail]\nowner = 'ops'\nretry_by = 'caller'\npreset = 'external'\nmax_attempts = 3\n").unwrap();
    let mail = &file.queues[&"mail".parse::<QueueName>().unwrap()];
    assert_eq!(mail.owner, Some(Label::from("ops")));
    assert_eq!(
        (mail.retry_by, mail.policy.preset, mail.policy.max_attempts),
        (RetryBy::Caller, Some(Preset::External), Some(3))
    );
}

#[test]
fn unknown_key_is_refused_with_line_and_suggestion() {
    assert_eq!(
        refused("[queue.mail]\nowner = 'ops'\n  leese_ms = 5\n"),
        "redrive.toml:3:3: unknown key `leese_ms` in [queue.mail]; did you mean `lease_ms`?"
    );
    assert_eq!(refused("[serve]\n"), "redrive.toml:1:2: unknown key `serve`; did you mean `server`?");
    assert_eq!(refused("\n[server]\ncolour = 1\n"), "redrive.toml:3:1: unknown key `colour` in [server]");
    assert_eq!(refused("[tier.gold]\nowner = 'x'\n"), "redrive.toml:2:1: unknown key `owner` in [tier.gold]");
}

#[test]
fn a_rule_that_is_wrong_is_refused_with_its_line() {
    let good = "[[rule]]\nmatch.queue = 'mail'\n";
    for (rule, said) in [
        ("[[rule]]\nname = 'x'\n", "redrive.toml:3:1: it has no condition"),
        ("[[rule]]\nmatch.text = { regex = '(' }\n", "redrive.toml:3:1: `text`: "),
        ("[[rule]]\nmatch.queue = 'a'\nreasn = 'bug'\n", "redrive.toml:5:1: unknown field `reasn`"),
        ("[[rule]]\nmatch.colour = 'a'\n", "redrive.toml:4:7: unknown field `colour`"),
        ("[[rule]]\nmatch.queue = 'a'\nreason = 'tired'\n", "redrive.toml:5:10: `tired` is not a reason"),
        ("[[rule]]\nmatch.queue = 'a'\nseverity = 'loud'\n", "redrive.toml:5:12: unknown variant `loud`"),
        ("[[rule]]\nmatch.status = { from = 500, to = 400 }\n", "redrive.toml:3:1: `status`"),
    ] {
        let complaint = refused(&format!("{good}{rule}"));
        assert!(complaint.starts_with(said), "{complaint}");
        assert_eq!(complaint.lines().count(), 1);
    }
    assert_eq!(refused("rule = 3\n"), "redrive.toml:1:8: `rule` is a list of sections: write [[rule]]");
}

/// Every example in the pages that people copy from.
#[test]
fn the_rules_in_the_docs_are_accepted() {
    let page = include_str!("../../../../docs/rules.md");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        let file = parse(example).unwrap_or_else(|complaint| panic!("{complaint}\n{example}"));
        assert!(file.rules.compiled().is_some(), "{example}");
    }
}

#[test]
fn a_figure_out_of_range_is_refused_with_its_place() {
    assert_eq!(refused("[defaults]\nlease_ms = 499\n"), "redrive.toml:2:12: `lease_ms` must be from 500 to 86400000");
    assert_eq!(
        refused("[tenant.acme]\nmax_attempts = 0\n"),
        "redrive.toml:2:16: `max_attempts` must be from 1 to 1000"
    );
}

#[test]
fn wrong_type_is_refused_with_its_line() {
    assert!(refused("[defaults]\nmax_attempts = 'four'\n").starts_with("redrive.toml:2:16: invalid type"));
    assert!(refused("[defaults]\npreset = 'golden'\n").starts_with("redrive.toml:2:10: unknown variant `golden`"));
    assert_eq!(refused("queue = 3\n"), "redrive.toml:1:9: `queue` has sections by name: write [queue.NAME]");
    assert_eq!(refused("[tier]\ngold = 3\n"), "redrive.toml:2:8: `tier.gold` is a section: write [tier.gold]");
}

#[test]
fn missing_tier_is_refused_with_its_line() {
    assert_eq!(refused("[tenant.acme]\ntier = 'gold'\n"), "redrive.toml:2:8: there is no [tier.gold]");
    let file = parse("[tenant.acme]\ntier = 'gold'\n[tier.gold]\npreset = 'customer'\n").unwrap();
    assert_eq!(file.policies.tenants.values().next().unwrap().tier.as_deref(), Some("gold"));
}

#[test]
fn invalid_name_is_refused_with_its_line() {
    assert!(refused("[queue.\"a b\"]\n").starts_with("redrive.toml:1:8: `a b`: an id is"));
}

#[test]
fn invalid_toml_is_refused_with_its_line() {
    assert!(refused("[server]\nlisten = \n").starts_with("redrive.toml:2:"), "{}", refused("[server]\nlisten = \n"));
    assert!(refused("[defaults]\nlease_ms = 500\nlease_ms = 600\n").starts_with("redrive.toml:3:1: duplicate key"));
}

#[test]
fn strategies_budgets_detectors_and_agents_are_sections() {
    let text = "[agent.biller]\ncan = ['invoice']\n[queue.q]\nmodels = ['s', 'l']\n[queue.q.strategy.tool_error]\ntries = 2\n\
                changes = [{ change = 'add_instruction', text = 'Look twice.' }]\n[queue.q.budget]\nretry_cost_usd_per_run = 0.5\n\
                [queue.q.detect]\noutput_schema = { required = ['total'] }\nexpect_tools = ['mail']\n";
    let file = parse(text).unwrap();
    let policy = &file.queues[&"q".parse::<QueueName>().unwrap()].policy;
    assert_eq!(policy.models.as_deref().map(<[_]>::len), Some(2));
    assert_eq!(policy.strategy.as_ref().unwrap()[&"tool_error".parse().unwrap()].tries, Some(2));
    assert!(policy.budget.unwrap().retry_cost_usd_per_run.is_some());
    assert!(policy.detect.as_ref().unwrap().output_schema.is_some());
    assert!(!file.policies.agents.is_empty());
}

#[test]
fn mistake_in_a_nested_section_is_refused_with_its_line() {
    for (text, said) in [
        ("[queue.q.strategy.tired]\ntries = 1\n", "redrive.toml:1:19: `tired` is not a reason"),
        ("[queue.q.strategy.bug]\ntrys = 1\n", "redrive.toml:2:1: unknown field `trys`"),
        ("[queue.q.strategy.bug]\ntries = 5000\n", "redrive.toml:1:10: `strategy.tries` must be from 0 to 1000"),
        ("[queue.q.limits]\nmax_running = 1\n", "redrive.toml:1:1: `limits` belong to a tenant"),
        ("[defaults.breaker]\nfailure_share = 0\n", "redrive.toml:1:1: `breaker.failure_share` must be above 0"),
        ("[tenant.t.limits]\nleases_per_s = -1.0\n", "redrive.toml:1:1: `limits.leases_per_s` must be above 0"),
        ("[defaults.detect]\nrepeats_in_row = 1\n", "redrive.toml:1:1: `detect.repeats_in_row` must be"),
        ("[defaults.detect]\noutput_schema = { type = 'txt' }\n", "redrive.toml:2:17: `type` has a value"),
        ("[agent.a]\ncan = ['x']\ncant = ['y']\n", "redrive.toml:3:1: unknown key `cant` in [agent.a]"),
        ("[queue.q]\noutput_schema_file = 'none.json'\n", "redrive.toml:2:22: none.json: No such file"),
    ] {
        assert!(refused(text).starts_with(said), "{}", refused(text));
    }
}

#[test]
fn a_schema_may_lie_in_a_file_beside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("out.json"), r#"{"required":["total"]}"#).unwrap();
    let path = folder.path().join("redrive.toml");
    let text = "[queue.q]\noutput_schema_file = 'out.json'\n";
    let file = ConfigFile::parse(ConfigText { path: &path, text }).unwrap();
    assert!(file.queues.values().next().unwrap().policy.detect.as_ref().unwrap().output_schema.is_some());
    std::fs::write(folder.path().join("out.json"), "{").unwrap();
    assert!(ConfigFile::parse(ConfigText { path: &path, text }).is_err());
}

#[test]
fn models_of_the_deployments_own_outrank_the_catalogue() {
    let file = parse("[[model]]\nname = 'gpt-5'\ncontext_tokens = 9_000\n").unwrap();
    assert_eq!(file.policies.models.limits("openai/gpt-5").unwrap().context_tokens, 9_000);
    assert_eq!(
        refused("[[model]]\nname = 'm'\ncontext_tokens = 9\ncolour = 1\n"),
        "redrive.toml:4:1: unknown key `colour` in [model]"
    );
    assert_eq!(
        refused("[[model]]\nname = 'm'\ncontext_tokens = 9\nmax_output_tokens = 10\n"),
        "redrive.toml:4:21: model `m`: `max_output_tokens` must be from 1 to `context_tokens`"
    );
    assert_eq!(refused("[model]\nname = 'm'\n"), "redrive.toml:1:1: `model` is a list of sections: write [[model]]");
}

#[test]
fn pointers_of_a_payload_are_checked() {
    let file = parse("[queue.mail]\npayload = { messages = '/a/b' }\npreflight = 'warn'\n").unwrap();
    let mail = &file.queues[&"mail".parse::<QueueName>().unwrap()];
    assert_eq!(mail.policy.payload.as_ref().unwrap().messages.as_deref(), Some("/a/b"));
    assert!(
        refused("[defaults]\npayload = { messages = 'a' }\n")
            .starts_with("redrive.toml:2:11: `payload` must be JSON pointers")
    );
}

/// Configuration copied from these pages must be accepted.
#[test]
fn configuration_examples_in_the_docs_are_accepted() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = vec![docs.join("detectors.md")];
    for folder in ["strategies", "recipes"] {
        pages.extend(std::fs::read_dir(docs.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let mut examples = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for example in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            parse(example).unwrap_or_else(|complaint| panic!("{}: {complaint}\n{example}", page.display()));
            examples += 1;
        }
    }
    assert!(examples >= 10, "{examples}");
}

#[test]
fn line_and_column_count_from_one() {
    let source = ConfigText { path: Path::new("r.toml"), text: "a = 1\nä = x\n" };
    let said = |at: usize| source.complain(&(at..at), "no").to_string();
    assert_eq!(said(0), "r.toml:1:1: no");
    assert_eq!(said(source.text.find('x').unwrap()), "r.toml:2:5: no");
    assert_eq!(said(10_000), "r.toml:3:1: no");
}
