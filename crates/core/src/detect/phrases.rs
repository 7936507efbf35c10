//! The sentences that frameworks put in an answer's place. Each is matched from the first letter, and those that are a
//! whole message to the last: an answer that merely speaks of errors or limits is none of them.

/// An agent's step cap, given back as its answer.
const CAPS: &[&str] = &[
    // LangGraph, LangChain
    "Sorry, need more steps to process this request.",
    "Agent stopped due to iteration limit or time limit.",
    "Agent stopped due to max iterations.",
    "Model call limits exceeded: * limit (*)",
    "Model call limits exceeded: * limit (*), * limit (*)",
    "Tool call limit exceeded. Do not call '*' again.",
    "Tool call limit reached: * limit exceeded (* calls).",
    "'*' tool call limit reached: * limit exceeded (* calls).",
    // CrewAI
    "Maximum iterations reached. Requesting final answer.",
    // AutoGen, OpenAI Agents, Pydantic AI
    "Maximum number of turns * reached.",
    "Max turns (*) exceeded",
    "The next request would exceed the request_limit of *",
];

/// An agent that noticed itself that it goes round in circles.
const LOOPS: &[&str] = &["I tried reusing the same input, I must stop using this action input.*"];

/// A generation that nobody could read.
const UNREADABLE: &[&str] = &["Invalid or incomplete response"];

/// A tool's error, passed on as text.
const TOOL_ERRORS: &[&str] = &[
    // LangChain, LangGraph
    "Error: * is not a valid tool, try one of [*",
    "Error: *\n Please fix your mistakes.",
    "Error executing tool '*' with kwargs *",
    "Error invoking tool '*' with kwargs *",
    "Tool '*' failed after * attempts with *",
    "Model call failed after * attempts with *",
    "Tool execution error",
    "Tool input validation error",
    // CrewAI
    "I encountered an error: *",
    "I encountered an error while trying to use the tool. This was the error: *",
    "Error executing tool. *",
    "You tried to use the tool *, but it doesn't exist.*",
    // OpenAI Agents
    "An error occurred while running the tool. Please try again.*",
    "Tool '*' timed out after * seconds.",
    "Tool '*' timed out after *ms.",
    // AutoGen, Agent Framework
    "Error: tool '*' not found in any workbench",
    "Error: Function failed.*",
    "Error: Argument parsing failed.*",
    "Error: Requested function \"*\" not found.*",
    "API request failed",
    "API request failed: *",
    "API request failed with *",
];

pub(super) fn is_cap(text: &str) -> bool {
    any(CAPS, text)
}

pub(super) fn is_loop(text: &str) -> bool {
    any(LOOPS, text)
}

pub(super) fn is_unreadable(text: &str) -> bool {
    any(UNREADABLE, text)
}

pub(super) fn is_tool_error(text: &str) -> bool {
    any(TOOL_ERRORS, text)
}

fn any(phrases: &[&str], text: &str) -> bool {
    let text = text.trim();
    phrases.iter().any(|phrase| fits(phrase, text))
}

/// `*` stands for anything; both ends are anchored.
fn fits(phrase: &str, text: &str) -> bool {
    let mut pieces = phrase.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(between) = last.replace(piece) {
            match rest.find(between) {
                Some(at) => rest = &rest[at + between.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(end) => rest.ends_with(end),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_the_whole_message_and_not_a_part_of_one() {
        assert!(is_cap("Sorry, need more steps to process this request."));
        assert!(is_cap(" Agent stopped due to max iterations.\n"));
        assert!(!is_cap("The log says: Agent stopped due to max iterations."));
        assert!(!is_cap("Agent stopped due to max iterations. I then raised the limit and it worked."));
        assert!(is_cap("Model call limits exceeded: run limit (5/5)"));
        assert!(is_cap("Tool call limit reached: run limit exceeded (4/3 calls)."));
        assert!(is_tool_error("Error: web_search is not a valid tool, try one of [fetch, sum]."));
        assert!(is_tool_error("Error: ValueError('x')\n Please fix your mistakes."));
        assert!(!is_tool_error("Error: the third column holds text, so I left it out."));
        assert!(!is_tool_error("Two tools were used. Error executing tool 'x' with kwargs {} came up once."));
    }
}
