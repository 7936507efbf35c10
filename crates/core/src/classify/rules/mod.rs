//! The built-in rules, one file a family. Order within a file is for the reader; ranks decide.
//! The tables are laid out by hand: rustfmt would give every phrase its own line.

#[rustfmt::skip]
mod access;
#[rustfmt::skip]
mod code;
#[rustfmt::skip]
mod context;
#[rustfmt::skip]
mod limits;
#[rustfmt::skip]
mod model;
#[rustfmt::skip]
mod output;
#[rustfmt::skip]
mod people;
#[rustfmt::skip]
mod request;
#[rustfmt::skip]
mod resources;
#[rustfmt::skip]
mod steps;
#[rustfmt::skip]
mod tools;
#[rustfmt::skip]
mod transport;

use std::sync::LazyLock;

use super::rule::Rule;

/// Every built-in rule.
pub fn rules() -> &'static [Rule] {
    static ALL: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let families = [
            limits::RULES,
            model::RULES,
            context::RULES,
            output::RULES,
            steps::RULES,
            tools::RULES,
            access::RULES,
            request::RULES,
            transport::RULES,
            resources::RULES,
            people::RULES,
            code::RULES,
        ];
        families.into_iter().flatten().cloned().collect()
    });
    &ALL
}
