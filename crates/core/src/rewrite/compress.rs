//! Making a request fit: the oldest goes first, whole groups at a time; the one that need not go whole is shortened to
//! the room that is left. System, the last ask and the last group stay.

use std::collections::HashSet;

use crate::json::{At, Splices};
use crate::rewrite::apply::WhyNot;
use crate::rewrite::groups::{Plan, plan};
use crate::rewrite::measure::fixed_tokens;
use crate::rewrite::messages::{Message, Part, messages};
use crate::rewrite::request::Request;
use crate::rewrite::shorten::{SHORTEST_TOKENS, shortened};
use crate::rewrite::texts::add_system;

/// What the note of what was left out costs at most.
pub(crate) const NOTE_TOKENS: u64 = 32;

/// The edits that bring a request down to `to` tokens; none are needed when it fits.
pub(crate) fn compress(request: &Request<'_, '_>, to: u64) -> Result<Splices, WhyNot> {
    let messages = messages(request);
    let total = fixed_tokens(request) + messages.iter().map(|message| message.tokens).sum::<u64>();
    if total <= to {
        return Ok(Splices::default());
    }
    let plan = plan(&messages);
    let choice = choose(&messages, &plan, total + NOTE_TOKENS - to)?;
    let mut splices = Splices::default();
    remove(request, &messages, &choice.dropped, &mut splices);
    for (at, tokens, to) in &choice.shortened {
        if let Some(short) = shortened(request.tape.raw(*at), *tokens, *to, request.tokenizer) {
            splices.replace(request.tape.span(*at), short);
        }
    }
    // Without a place for the note the request fits all the same.
    let _ = add_system(request, &note(&messages, &choice), &mut splices);
    Ok(splices)
}

/// What goes and what is cut: a text, its tokens, and what it may have.
#[derive(Debug, Default)]
struct Choice {
    dropped: HashSet<usize>,
    shortened: Vec<(At, u64, u64)>,
    freed: u64,
}

fn choose(messages: &[Message<'_>], plan: &Plan, need: u64) -> Result<Choice, WhyNot> {
    let mut choice = Choice::default();
    for piece in &plan.droppable {
        if choice.freed >= need {
            return Ok(choice);
        }
        let tokens: u64 = piece.iter().map(|n| messages[*n].tokens).sum();
        let missing = need - choice.freed;
        if tokens > missing
            && let Some(cut) = cut(piece.iter().flat_map(|n| &messages[*n].texts), missing)
        {
            choice.shortened.extend(cut);
            choice.freed = need;
            return Ok(choice);
        }
        choice.dropped.extend(piece);
        choice.freed += tokens;
    }
    if choice.freed >= need {
        return Ok(choice);
    }
    let texts = last_texts(messages, plan);
    let cut = cut(texts.into_iter(), need - choice.freed).ok_or(WhyNot::NothingLeftToDrop)?;
    choice.shortened.extend(cut);
    choice.freed = need;
    Ok(choice)
}

/// What may be cut of the last group: what tools gave and what the assistant wrote, never the ask.
pub(crate) fn last_texts<'m>(messages: &'m [Message<'_>], plan: &Plan) -> Vec<&'m (At, u64)> {
    let Some(last) = plan.last else { return Vec::new() };
    let mine = |message: &&Message<'_>| match message.part {
        Part::Assistant | Part::Call | Part::Result => true,
        Part::System | Part::User | Part::Preface => false,
    };
    messages[last.first..=last.last].iter().filter(mine).flat_map(|message| &message.texts).collect()
}

/// Caps the longest texts at one level, so that together they free `need`; none when they can't.
fn cut<'m>(texts: impl Iterator<Item = &'m (At, u64)>, need: u64) -> Option<Vec<(At, u64, u64)>> {
    let mut longest: Vec<(At, u64)> = texts.copied().collect();
    longest.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let mut sum = 0;
    for n in 0..longest.len() {
        sum += longest[n].1;
        let count = n as u64 + 1;
        let floor = longest.get(n + 1).map_or(SHORTEST_TOKENS, |(_, next)| (*next).max(SHORTEST_TOKENS));
        // The longest `count` at this level free enough, and none of the others is above it.
        let level = sum.saturating_sub(need) / count;
        if sum >= need && level >= floor {
            return Some(longest[..=n].iter().map(|(at, tokens)| (*at, *tokens, level)).collect());
        }
    }
    None
}

/// Takes messages out of their list, with the comma before or after them.
fn remove(request: &Request<'_, '_>, messages: &[Message<'_>], dropped: &HashSet<usize>, splices: &mut Splices) {
    let span = |n: usize| request.tape.span(messages[n].at);
    let mut kept_before = false;
    for n in 0..messages.len() {
        let goes = dropped.contains(&n);
        if goes && kept_before {
            splices.remove((span(n - 1).1, span(n).1));
        } else if goes {
            let end = if n + 1 < messages.len() { span(n + 1).0 } else { span(n).1 };
            splices.remove((span(n).0, end));
        }
        kept_before |= !goes;
    }
}

fn note(messages: &[Message<'_>], choice: &Choice) -> String {
    let tokens: u64 = choice.dropped.iter().map(|n| messages[*n].tokens).sum();
    let cut: u64 = choice.shortened.iter().map(|(_, tokens, to)| tokens - to).sum();
    let about = tokens + cut;
    match choice.dropped.len() {
        0 => format!("[About {about} tokens of long texts above were left out to fit the context.]"),
        1 => format!("[1 earlier message, about {about} tokens, was left out to fit the context.]"),
        n => format!("[{n} earlier messages, about {about} tokens, were left out to fit the context.]"),
    }
}
