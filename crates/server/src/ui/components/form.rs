//! Forms: each carries its session's token, so that no other site can send it.

use maud::{Markup, html};

pub(crate) fn post_form(action: &str, csrf: &str, body: &Markup) -> Markup {
    html! { form method="post" action=(action) { (hidden("csrf", csrf)) (body) } }
}

pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A line to type in, with what it is for above it.
pub(crate) fn field(name: &str, label: &str, value: &str, placeholder: &str) -> Markup {
    html! { label.field { span { (label) } input type="text" name=(name) value=(value) placeholder=(placeholder); } }
}

pub(crate) fn reason_field(required: bool) -> Markup {
    html! {
        label.field {
            span { "Reason" @if !required { span.faint { " (kept in the history)" } } }
            input type="text" name="reason" required[required] maxlength="2000";
        }
    }
}

/// One of a few words; the first is chosen unless another is named.
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
