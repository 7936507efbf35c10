//! Measuring a request and making it fit: whole groups of messages go, oldest first; the last one that need not go whole is
//! shortened. System prompt, last question and last group stay.

use std::collections::{HashMap, HashSet};

use super::apply::{NotApplied, add_system};
use super::messages::{Message, MessageRole, messages};
use super::request::{Request, find};
use super::shorten::{SHORTEST_TOKENS, shortened};
use crate::json::{At, Splices, Tape};
use crate::policy::PayloadShape;
use crate::preflight::{is_seen, weigh};

/// What the note of what was left out costs at most.
pub(crate) const NOTE_TOKENS: u64 = 32;

/// The edits that bring a request down to `to` tokens; none are needed when it fits.
pub(crate) fn compress(request: &Request<'_, '_>, to: u64) -> Result<Splices, NotApplied> {
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
    // Without a place for the note the request still fits.
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

fn choose(messages: &[Message<'_>], plan: &DropPlan, need: u64) -> Result<Choice, NotApplied> {
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
    let cut = cut(texts.into_iter(), need - choice.freed).ok_or(NotApplied::NothingLeftToDrop)?;
    choice.shortened.extend(cut);
    choice.freed = need;
    Ok(choice)
}

/// What may be cut of the last group: what tools gave and what the assistant wrote, never the ask.
pub(crate) fn last_texts<'m>(messages: &'m [Message<'_>], plan: &DropPlan) -> Vec<&'m (At, u64)> {
    let Some(last) = plan.last else { return Vec::new() };
    let mine = |message: &&Message<'_>| match message.part {
        MessageRole::Assistant | MessageRole::Call | MessageRole::Result => true,
        MessageRole::System | MessageRole::User | MessageRole::Preface => false,
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

/// Messages `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageGroup {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// What may go, the oldest first, and what stays.
#[derive(Debug, Default)]
pub(crate) struct DropPlan {
    /// Each may be dropped once all before it are.
    pub(crate) droppable: Vec<Vec<usize>>,
    /// Stays, and its tool results and assistant's texts may be shortened if nothing else helps.
    pub(crate) last: Option<MessageGroup>,
}

pub(crate) fn plan(messages: &[Message<'_>]) -> DropPlan {
    let groups = groups(messages);
    let part = |group: &MessageGroup| messages[group.first].part;
    let free: Vec<MessageGroup> = groups.into_iter().filter(|group| part(group) != MessageRole::System).collect();
    let Some(last) = free.last().copied() else { return DropPlan::default() };
    let ask = free.iter().rposition(|group| part(group) == MessageRole::User);
    let before = ask.unwrap_or(0);
    let mut droppable = Vec::new();
    for turn in turns(&free[..before], messages) {
        droppable.extend(drop_turn(&turn, messages));
    }
    // Of the turn under way its oldest tool work goes first; the ask and the last group stay.
    let since = if ask.is_some() { before + 1 } else { 0 };
    let under_way = free.get(since..free.len() - 1).unwrap_or_default();
    droppable.extend(under_way.iter().map(|group| (group.first..=group.last).collect()));
    DropPlan { droppable, last: Some(last) }
}

/// A person's message and what followed it up to their next.
fn turns<'g>(groups: &'g [MessageGroup], messages: &[Message<'_>]) -> Vec<Vec<&'g MessageGroup>> {
    let mut turns: Vec<Vec<&MessageGroup>> = Vec::new();
    for group in groups {
        match turns.last_mut() {
            Some(turn) if messages[group.first].part != MessageRole::User => turn.push(group),
            Some(_) | None => turns.push(vec![group]),
        }
    }
    turns
}

/// First the tool work of a turn, piece by piece; then what was asked together with what was answered, so that who
/// speaks goes on alternating.
fn drop_turn(turn: &[&MessageGroup], messages: &[Message<'_>]) -> Vec<Vec<usize>> {
    let is_tool_work =
        |group: &&&MessageGroup| messages[group.first..=group.last].iter().any(|m| m.part == MessageRole::Result);
    let mut pieces: Vec<Vec<usize>> =
        turn.iter().filter(is_tool_work).map(|group| (group.first..=group.last).collect()).collect();
    let rest: Vec<usize> =
        turn.iter().filter(|group| !is_tool_work(group)).flat_map(|group| group.first..=group.last).collect();
    pieces.extend((!rest.is_empty()).then_some(rest));
    pieces
}

/// Calls with their results by id, results without a known id with what is before them, prefaces with what is next.
fn groups(messages: &[Message<'_>]) -> Vec<MessageGroup> {
    let mut caller: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<MessageGroup> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let asked = message.answers.iter().filter_map(|id| caller.get(id.as_ref()).copied()).min();
        let mut first = match message.part {
            MessageRole::Result => asked.unwrap_or_else(|| n.saturating_sub(usize::from(message.answers.is_empty()))),
            MessageRole::System
            | MessageRole::User
            | MessageRole::Assistant
            | MessageRole::Call
            | MessageRole::Preface => n,
        };
        if n > 0 && messages[n - 1].part == MessageRole::Preface {
            first = first.min(n - 1);
        }
        // Everything since the call belongs to its group, also what came in between.
        while let Some(open) = groups.last().copied().filter(|open| open.last >= first) {
            first = first.min(open.first);
            groups.pop();
        }
        groups.push(MessageGroup { first, last: n });
        for id in &message.calls {
            caller.insert(id.as_ref(), n);
        }
    }
    groups
}

/// Estimated tokens of a request's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub tokens: u64,
    /// With all dropped and shortened that may be: compression can't go below it.
    pub floor_tokens: u64,
    /// The model that the request names.
    pub model: Option<String>,
    /// The output that the request allows.
    pub output_tokens: Option<u64>,
}

/// Measures the request in a payload; none when its shape is not known.
pub fn measure(payload: &str, shape: &PayloadShape) -> Option<Room> {
    let tape = Tape::of(payload)?;
    let request = find(&tape, shape)?;
    let messages = messages(&request);
    let fixed = fixed_tokens(&request);
    let tokens = fixed + messages.iter().map(|message| message.tokens).sum::<u64>();
    Some(Room {
        tokens,
        floor_tokens: floor(&messages, tokens),
        model: model(&request),
        output_tokens: request.output.and_then(|at| tape.whole(at)),
    })
}

/// The model that a payload's request names.
pub fn model_of(payload: &str, shape: &PayloadShape) -> Option<String> {
    let tape = Tape::of(payload)?;
    model(&find(&tape, shape)?)
}

pub(crate) fn model(request: &Request<'_, '_>) -> Option<String> {
    request.model.and_then(|at| request.tape.string(at)).map(|name| name.into_owned())
}

/// What stays whatever happens to the messages: system, tools, formats.
pub(crate) fn fixed_tokens(request: &Request<'_, '_>) -> u64 {
    let tape = request.tape;
    let beside: u64 = match request.body {
        Some(body) => tape
            .members(body)
            .filter(|(key, value)| Some(*value) != request.messages && is_seen(tape, *key, *value))
            .map(|(_, value)| weigh(tape, value, request.tokenizer))
            .sum(),
        None => request.system.iter().chain(&request.instructions).map(|at| weigh(tape, *at, request.tokenizer)).sum(),
    };
    beside + 3
}

/// What a request of `tokens` would weigh with everything left out that may be.
pub(crate) fn floor(messages: &[Message<'_>], tokens: u64) -> u64 {
    let plan = plan(messages);
    let droppable: u64 = plan.droppable.iter().flatten().map(|n| messages[*n].tokens).sum();
    let cuttable: u64 =
        last_texts(messages, &plan).iter().map(|(_, tokens)| tokens.saturating_sub(SHORTEST_TOKENS)).sum();
    (tokens.saturating_sub(droppable + cuttable) + NOTE_TOKENS).min(tokens)
}
