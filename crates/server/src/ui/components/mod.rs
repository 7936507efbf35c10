//! The whole kit that pages are made of: text of strangers, times, numbers, badges, panels, forms, charts. A page
//! writes no class name that is not said here or in its own file.

mod badge;
mod chart;
mod form;
mod number;
mod panel;
mod text;
mod when;

pub(crate) use badge::{
    because_badge, breaker_badge, operation_badge, outcome_badge, pattern_badges, severity_badge, state_badge,
    state_word_badge, will_badge,
};
pub(crate) use chart::{Bar, bars, spark};
pub(crate) use form::{choice, field, hidden, post_form, reason_field};
pub(crate) use number::{bytes, grouped, of, percent};
pub(crate) use panel::{Chip, chips, empty, fact, facts, head, pager, panel};
pub(crate) use text::{line, link_or_text, prose, said, template, visible};
pub(crate) use when::{ago, ahead, clock, exact, span};
