//! Panels, facts, chips, pages of a list, and what an empty one teaches.

use maud::{Markup, html};

use super::text::visible;

/// The headline is the answer; below it why it may be believed; beside it what to do.
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

/// Says why there is nothing, and how there would be something.
pub(crate) fn empty(headline: &str, what_to_do: &Markup) -> Markup {
    html! { div.empty { b { (headline) } p.muted { (what_to_do) } } }
}

pub(crate) fn facts(rows: &[Markup]) -> Markup {
    html! { dl.facts { @for row in rows { (row) } } }
}

pub(crate) fn fact(name: &str, value: &Markup) -> Markup {
    html! { dt { (visible(name)) } dd { (value) } }
}

/// One filter, and the address of the list without it.
pub(crate) struct Chip {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) without: String,
}

pub(crate) fn chips(chips: &[Chip]) -> Markup {
    html! {
        @for Chip { name, value, without } in chips {
            span.chip {
                (name) " " b { bdi { (visible(value)) } }
                a href=(without) aria-label=(format!("remove {name} {}", visible(value))) { "×" }
            }
        }
    }
}

/// Where a list goes on.
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
