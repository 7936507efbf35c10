//! The components that pages are made of. A page writes no class name that is not in here or in its own file.

mod badge;
mod chart;
mod text;

pub(crate) use badge::{
    because_badge, breaker_badge, operation_badge, outcome_badge, pattern_badges, severity_badge, state_badge,
    state_word_badge, will_badge,
};
pub(crate) use chart::{ChartBar, bars, spark};
pub(crate) use text::{
    ago, ahead, bytes, clock, exact, grouped, isolated, line, link_or_text, of, percent, prose, span, template, visible,
};

use maud::{Markup, html};

/// The headline states the answer, with the evidence below and the actions beside it.
pub(crate) fn head(headline: &Markup, why: &Markup, actions: &Markup) -> Markup {
    html! {
        div.head { div { h1 { (headline) } p { (why) } } div.bar { (actions) } }
    }
}

pub(crate) fn panel(id: &str, title: &str, end: &Markup, body: &Markup) -> Markup {
    let heading = format!("{id}-h");
    html! {
        section.panel id=(id) aria-labelledby=(heading) {
            header { h2 id=(heading) { (title) } span.end { (end) } }
            (body)
        }
    }
}

/// An empty list: why it is empty and how to fill it.
pub(crate) fn empty(headline: &str, what_to_do: &Markup) -> Markup {
    html! { div.empty { b { (headline) } p.muted { (what_to_do) } } }
}

pub(crate) fn facts(rows: &[Markup]) -> Markup {
    html! { dl.facts { @for row in rows { (row) } } }
}

pub(crate) fn fact(name: &str, value: &Markup) -> Markup {
    html! { dt { (visible(name)) } dd { (value) } }
}

/// An active filter, with a link to the list without it.
pub(crate) struct FilterChip {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) without: String,
}

pub(crate) fn chips(chips: &[FilterChip]) -> Markup {
    html! {
        @for FilterChip { name, value, without } in chips {
            span.chip {
                (name) " " b { bdi { (visible(value)) } }
                a href=(without) aria-label=(format!("remove {name} {}", visible(value))) { "×" }
            }
        }
    }
}

/// Links to the first and the next page of a list.
pub(crate) fn pager(first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if let Some(first) = first { a.button href=(first) { "First page" } }
                @if let Some(next) = next { a.button rel="next" href=(next) { "Next page" } }
            }
        }
    }
}

pub(crate) fn post_form(action: &str, csrf: &str, body: &Markup) -> Markup {
    html! { form method="post" action=(action) { (hidden("csrf", csrf)) (body) } }
}

pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A text field with its label.
pub(crate) fn field(name: &str, label: &str, value: &str, placeholder: &str) -> Markup {
    html! { label.field { span { (label) } input type="text" name=(name) value=(value) placeholder=(placeholder); } }
}

pub(crate) fn reason_field(required: bool) -> Markup {
    html! {
        label.field {
            span { "Reason" @if !required { span.faint { " (shown in the history)" } } }
            input type="text" name="reason" required[required] maxlength="2000";
        }
    }
}

/// A select field; the first option is the default.
pub(crate) fn choice(name: &str, label: &str, options: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            select name=(name) {
                @for (value, word) in options { option value=(value) selected[*value == chosen] { (word) } }
            }
        }
    }
}
