//! Prints requests after each change, one JSON object a line: `{"name","format","request"}`. The suite under
//! tests/python holds them against the types of the providers' own packages.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use redrive_core::models::Models;
use redrive_core::policy::PayloadShape;
use redrive_core::rewrite::rewrite;
use redrive_core::verdict::Change;
use serde_json::{Value, json};

fn main() {
    for (format, name, request) in requests() {
        let payload = request.to_string();
        for (change, changes) in changes() {
            let rewritten = rewrite(&payload, &PayloadShape::default(), &changes, None, &Models::builtin());
            let request: Value = serde_json::from_str(&rewritten.payload).unwrap_or(Value::Null);
            let left: Vec<String> =
                rewritten.not_applied().map(|(change, why)| format!("{}: {why}", change.as_str())).collect();
            println!(
                "{}",
                json!({"name": format!("{name}: {change}"), "format": format, "request": request, "left": left,
                       "differs": rewritten.payload != payload})
            );
        }
    }
}

fn changes() -> Vec<(&'static str, Vec<Change>)> {
    let compress = Change::CompressContext { to_tokens: Some(1_500) };
    let instruction = Change::AddInstruction { text: "Focus on the core task.".into() };
    let constraint = Change::AddConstraint { text: "Answer in JSON.".into() };
    let error = Change::AddLastError { text: Some("expected value at line 1 \"x\"".into()) };
    let budget = Change::ScaleOutputBudget { factor: 2.0 };
    let less = Change::ScaleOutputBudget { factor: 0.6 };
    let model = |name: &str| Change::SetModel { model: name.into() };
    vec![
        ("compress_context", vec![compress.clone()]),
        ("add_instruction", vec![instruction.clone()]),
        ("add_constraint", vec![constraint.clone()]),
        ("add_last_error", vec![error.clone()]),
        ("scale_output_budget up", vec![budget.clone()]),
        ("scale_output_budget down", vec![less]),
        ("set_model", vec![model("gpt-4.1")]),
        ("all of them", vec![compress, instruction, constraint, error, budget, model("claude-sonnet-4-5")]),
    ]
}

fn requests() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("openai", "openai chat", openai(true)),
        ("openai", "openai chat without a system prompt", openai(false)),
        ("openai", "openai chat of parts", openai_parts()),
        ("responses", "openai responses", responses()),
        (
            "responses",
            "openai responses of one text",
            json!({"model": "gpt-5", "input": long(3), "instructions": "Be kind.", "max_output_tokens": 500}),
        ),
        ("anthropic", "anthropic messages", anthropic(true)),
        ("anthropic", "anthropic messages without a system prompt", anthropic(false)),
        ("anthropic", "anthropic messages of blocks", anthropic_blocks()),
    ]
}

fn long(n: usize) -> String {
    format!("{n}: {}", "The customer asks about the invoice of last month. ".repeat(60))
}

fn openai(system: bool) -> Value {
    let mut messages = Vec::new();
    if system {
        messages.push(json!({"role": "developer", "content": "Be kind."}));
    }
    for n in 0..6 {
        messages.push(json!({"role": "user", "content": long(n)}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": format!("call_{n}a"), "type": "function", "function": {"name": "find", "arguments": "{\"q\": 1}"}},
            {"id": format!("call_{n}b"), "type": "function", "function": {"name": "find", "arguments": "{\"q\": 2}"}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{n}a"), "content": long(n)}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{n}b"), "content": "none"}));
        messages.push(json!({"role": "assistant", "content": "It is paid."}));
    }
    messages.push(json!({"role": "user", "content": "And this month's?"}));
    json!({"model": "gpt-4o", "messages": messages, "max_completion_tokens": 2000, "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "find", "description": "Find it.",
            "parameters": {"type": "object", "properties": {"q": {"type": "integer"}}}}}]})
}

fn openai_parts() -> Value {
    let part = |text: String| json!([{"type": "text", "text": text}]);
    json!({"model": "gpt-4o", "max_tokens": 1000, "messages": [
        {"role": "system", "content": part("Be kind.".into())},
        {"role": "user", "content": part(long(1))},
        {"role": "assistant", "content": part(long(2))},
        {"role": "user", "content": [{"type": "text", "text": long(3)},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "assistant", "content": "Seen."},
        {"role": "user", "content": part("And now?".into())}]})
}

fn responses() -> Value {
    let mut input = vec![json!({"role": "developer", "content": "Be kind."})];
    for n in 0..5 {
        input.push(json!({"role": "user", "content": [{"type": "input_text", "text": long(n)}]}));
        input.push(json!({"type": "reasoning", "id": format!("rs_{n}"), "summary": []}));
        input.push(json!({"type": "function_call", "call_id": format!("call_{n}"), "name": "find", "arguments": "{}"}));
        input.push(json!({"type": "function_call_output", "call_id": format!("call_{n}"), "output": long(n)}));
        input.push(json!({"role": "assistant", "content": "It is paid."}));
    }
    input.push(json!({"role": "user", "content": "And this month's?"}));
    json!({"model": "gpt-5", "input": input, "max_output_tokens": 500})
}

fn anthropic(system: bool) -> Value {
    let mut messages = Vec::new();
    for n in 0..6 {
        messages.push(json!({"role": "user", "content": long(n)}));
        messages.push(json!({"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": format!("toolu_{n}"), "name": "find", "input": {"q": n}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": long(n)}]}));
        messages.push(json!({"role": "assistant", "content": "It is paid."}));
    }
    messages.push(json!({"role": "user", "content": "And this month's?"}));
    let mut request = json!({"model": "claude-opus-4-1", "max_tokens": 2000, "messages": messages,
        "tools": [{"name": "find", "description": "Find it.", "input_schema": {"type": "object", "properties": {}}}]});
    if system {
        request["system"] = "Be kind.".into();
    }
    request
}

fn anthropic_blocks() -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": long(1)}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": long(2).repeat(3)}]}, {"type": "text", "text": "Go on."}]}]})
}
