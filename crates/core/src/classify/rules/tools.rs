//! Tools: missing, or failing in their own way.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{Framework, Llm, Tool};
use crate::reason::Reason::{ToolError, ToolNotFound};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.tool_missing.unknown", ToolNotFound, SURE, &[
        "unknown tool", "unknown function", "unknown command", "no such tool", "no such command", "tool not found",
        "tool ~ not found", "tool does not exist", "tool ~ does not exist", "tool ~ doesn't exist",
        "tool ~ is not available", "tool ~ not available", "tool ~ not registered", "tool ~ is not registered",
        "tool ~ not recognized", "tool not recognized", "is not a valid tool", "not a valid tool",
        "invalid tool name", "invalid tool ~ available tools", "no tool named", "no tool found", "no tool with name",
        "no function named", "undefined tool", "non existent tool", "nonexistent tool", "unavailable tool",
        "unsupported tool", "tool is not defined", "requested function ~ not found", "function ~ not found in",
        "function not found", "not found in any workbench", "no matching tool", "could not find tool",
        "cannot find tool", "can't find tool", "unable to find tool", "tool ~ is unknown", "tool ~ is not defined",
        "tool ~ not supported", "called a tool that", "hallucinated tool", "tried to call unavailable", "tool not in",
        "not in the list of tools", "action not found", "skill not found", "unknown action", "unknown skill",
        "unknown mcp server", "tool isn't available", "tool ~ isn't available", "no tool called", "missing tool",
        "plugin not found", "method not found",
    ])
    .unless(&["tool call id", "tool call ids", "tool use ids", "tool_call_id", "tool result", "no such file", "column"])
    .at(&[Tool, Framework, Llm])
    .note("LangChain: is not a valid tool; CrewAI: but it doesn't exist; AutoGen: not found in any workbench; \
         Vercel: NoSuchTool; MCP: -32602 Tool not found")
    .example("Error: get_wether is not a valid tool, try one of [get_weather]."),
    Rule::new("builtin.tool_missing.named", ToolNotFound, CLEAR + 12, &[
        "unknown tool", "is not a valid tool", "tool not found", "no such tool", "no such tool error",
        "tool ~ not found", "unknown function", "not found in any workbench", "tool ~ does not exist",
    ])
    .unless(&["tool call id", "tool use ids", "no such file", "column"])
    .note("the same, where the caller does not say where it happened")
    .example("NoSuchToolError: Model tried to call unavailable tool 'frobnicate'"),
    Rule::new("builtin.tool_missing.command", ToolNotFound, SURE - 3, &[
        "command not found", "is not recognized as an internal or external",
        "is not recognized as the name of a cmdlet", "spawn ~ enoent", "executable file not found",
        "executable not found", "no such command", "exit code 127", "exit status 127", "exited with code 127",
        "returned 127", "exited with 127", "is not installed", "not found in path", "not found on path",
        "not found in your path", "binary not found", "could not find executable", "cannot find executable",
        "unable to find executable", "which: no", "missing executable", "program not found", "cannot run program",
        "failed to spawn", "failed to start mcp server", "failed to start server process", "could not start mcp",
        "is it installed", "please install ~ and make sure", "exec format error", "exec ~ no such file",
        "must be installed", "command not recognized", "command ~ not found", "bin sh ~ not found",
        "sh 1 ~ not found", "sh line ~ not found",
    ])
    .unless(&["module not installed", "no module named", "package is not installed"])
    .note("shells, Node's spawn, Go's exec: a command that cannot be started")
    .example("bash: line 1: kubectl: command not found"),
    Rule::new("builtin.tool_missing.exec", ToolNotFound, CLEAR + 14, &[
        "no such file or directory", "file not found error",
    ])
    .with(&["subprocess", "popen", "execute child"])
    .note("Python's subprocess reports a missing program as a missing file; its frames tell the difference")
    .example("FileNotFoundError: [Errno 2] No such file or directory: 'jqq' in create_subprocess_exec"),
    Rule::new("builtin.tool.retries", ToolError, SURE - 5, &[
        "tool ~ exceeded max retries", "tool ~ exceeded maximum retries", "tool exceeded its maximum retries",
        "exceeded max retries count", "tool ~ failed after",
    ])
    .unless(&["timed out", "rate limit"])
    .note("Pydantic AI: Tool 'x' exceeded max retries count of N; LangChain: Tool failed after N attempts")
    .example("Tool 'sync' exceeded max retries count of 3"),
    Rule::new("builtin.tool.exit", ToolError, LIKELY + 2, &[
        "non zero exit", "nonzero exit", "non zero code", "non zero status", "exit code", "exit status",
        "exited with code", "exited with status", "exited with error", "process exited", "called process error",
        "returned exit", "return code", "command failed", "command exited", "exited unexpectedly", "exited with",
        "shell command failed", "script failed", "build failed", "test failed", "tests failed", "compilation failed",
        "elifecycle", "npm err", "make error", "errored with",
    ])
    .unless(&["exit code 0", "exit code 137", "exit code 127"])
    .note("a tool that ran and said no: any program's exit status")
    .example("Command failed with exit code 2"),
    Rule::new("builtin.tool.sql", ToolError, CLEAR - 8, &[
        "syntax error at or near", "error in your sql syntax", "sql syntax error", "sql compilation error",
        "sql error", "near ~ syntax error", "ambiguous column", "invalid input syntax", "operator does not exist",
        "must appear in the group by", "sqlstate 42601", "unrecognized token", "unknown column", "has no column",
        "no such column", "column ~ does not exist", "invalid sql", "sql logic error", "incorrect syntax near",
        "ora-00933", "ora-00904", "invalid identifier", "parse error in sql", "missing from clause entry",
        "aggregate function",
    ])
    .note("SQL that the model wrote: PostgreSQL 42601, MySQL 1064, SQLite, Snowflake, T-SQL")
    .example("ERROR: syntax error at or near \"FORM\" at character 10"),
    Rule::new("builtin.tool.edit", ToolError, CLEAR + 2, &[
        "string to replace not found", "old string not found", "could not find the string to replace",
        "no match found for replacement", "not find a match", "failed to edit", "edit failed", "patch failed",
        "patch does not apply", "hunk failed", "failed to apply patch", "failed to apply diff", "could not apply",
        "apply patch ~ failed", "search block ~ not", "search replace block", "no changes to apply",
        "no changes made", "old string ~ not found", "old string and new string", "occurrences of ~ old string",
        "multiple matches", "matches ~ occurrences", "expected 1 occurrence", "found 0 occurrences",
        "has not been read yet", "file has been modified since", "must read ~ before", "read it first",
        "merge conflict", "automatic merge failed", "not a git repository", "failed to push some refs",
        "your local changes ~ would be overwritten", "nothing to commit", "invalid regex", "regex parse error",
        "element not found", "element is not ~ visible", "element is not attached", "not clickable",
        "element click intercepted", "stale element", "no element found", "strict mode violation",
        "selector ~ did not match", "no node found for selector", "execution context was destroyed", "target closed",
        "page crashed", "browser has been closed", "navigation failed", "net err aborted",
    ])
    .note("editors, git and browsers that refuse what the model asked for")
    .example("Edit failed: string to replace not found in file."),
    Rule::new("builtin.tool.failed", ToolError, LIKELY - 8, &[
        "tool execution error", "tool execution failed", "tool execution", "tool call failed", "tool failed",
        "tool error", "tool ~ failed", "error executing tool", "error running tool", "error calling tool",
        "error in tool", "error while running the tool", "error occurred while running the tool",
        "error invoking tool", "function failed", "error executing function", "tool invocation error",
        "tool exception", "tool returned an error", "tool reported", "tool usage error",
        "encountered an error while trying to use the tool", "mcp error", "mcp tool", "is error true",
        "call tool ~ failed", "action failed", "tool result error", "tool use error", "execution failed",
        "failed to execute", "error executing", "error while executing", "failed to run", "hook failed",
        "plugin failed", "api request failed", "please fix your mistakes", "fix the errors and try again",
        "fix the error and try again",
    ])
    .note("OpenAI Agents: An error occurred while running the tool; Agent Framework: Function failed; MCP isError; \
         CrewAI, LangChain texts")
    .example("An error occurred while running the tool. Please try again."),
    Rule::new("builtin.tool.hint", ToolError, HINT - 8, &[
        "failed", "error", "errors", "could not", "unable to", "cannot", "rejected", "exception", "invalid",
        "not allowed here", "aborted",
    ])
    .at(&[Tool])
    .note("a tool step that failed, and nothing more exact is known")
    .example("could not do it"),
];
