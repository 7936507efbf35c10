//! What goes together: a call and its results, reasoning and what it led to, a person's turn and its answer. Whatever is
//! dropped is dropped as one of these, so that no call is left without its result and no result without its call.

use std::collections::HashMap;

use crate::rewrite::messages::{Message, Part};

/// Messages `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// What may go, the oldest first, and what stays.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Each may be dropped once all before it are.
    pub(crate) droppable: Vec<Vec<usize>>,
    /// Stays, and its tool results and assistant's texts may be shortened if nothing else helps.
    pub(crate) last: Option<Group>,
}

pub(crate) fn plan(messages: &[Message<'_>]) -> Plan {
    let groups = groups(messages);
    let part = |group: &Group| messages[group.first].part;
    let free: Vec<Group> = groups.into_iter().filter(|group| part(group) != Part::System).collect();
    let Some(last) = free.last().copied() else { return Plan::default() };
    let ask = free.iter().rposition(|group| part(group) == Part::User);
    let before = ask.unwrap_or(0);
    let mut droppable = Vec::new();
    for turn in turns(&free[..before], messages) {
        droppable.extend(drop_turn(&turn, messages));
    }
    // Of the turn under way its oldest tool work goes first; the ask and the last group stay.
    let since = if ask.is_some() { before + 1 } else { 0 };
    let under_way = free.get(since..free.len() - 1).unwrap_or_default();
    droppable.extend(under_way.iter().map(|group| (group.first..=group.last).collect()));
    Plan { droppable, last: Some(last) }
}

/// A person's message and what followed it up to their next.
fn turns<'g>(groups: &'g [Group], messages: &[Message<'_>]) -> Vec<Vec<&'g Group>> {
    let mut turns: Vec<Vec<&Group>> = Vec::new();
    for group in groups {
        match turns.last_mut() {
            Some(turn) if messages[group.first].part != Part::User => turn.push(group),
            Some(_) | None => turns.push(vec![group]),
        }
    }
    turns
}

/// First the tool work of a turn, piece by piece; then what was asked together with what was answered, so that who
/// speaks goes on alternating.
fn drop_turn(turn: &[&Group], messages: &[Message<'_>]) -> Vec<Vec<usize>> {
    let is_tool_work = |group: &&&Group| messages[group.first..=group.last].iter().any(|m| m.part == Part::Result);
    let mut pieces: Vec<Vec<usize>> =
        turn.iter().filter(is_tool_work).map(|group| (group.first..=group.last).collect()).collect();
    let rest: Vec<usize> =
        turn.iter().filter(|group| !is_tool_work(group)).flat_map(|group| group.first..=group.last).collect();
    pieces.extend((!rest.is_empty()).then_some(rest));
    pieces
}

/// Calls with their results by id, results without a known id with what is before them, prefaces with what is next.
fn groups(messages: &[Message<'_>]) -> Vec<Group> {
    let mut caller: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let asked = message.answers.iter().filter_map(|id| caller.get(id.as_ref()).copied()).min();
        let mut first = match message.part {
            Part::Result => asked.unwrap_or_else(|| n.saturating_sub(usize::from(message.answers.is_empty()))),
            Part::System | Part::User | Part::Assistant | Part::Call | Part::Preface => n,
        };
        if n > 0 && messages[n - 1].part == Part::Preface {
            first = first.min(n - 1);
        }
        // Everything since the call belongs to its group, also what came in between.
        while let Some(open) = groups.last().copied().filter(|open| open.last >= first) {
            first = first.min(open.first);
            groups.pop();
        }
        groups.push(Group { first, last: n });
        for id in &message.calls {
            caller.insert(id.as_ref(), n);
        }
    }
    groups
}
