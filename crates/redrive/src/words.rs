//! Flags that take one of a closed set of words, and how states look.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_core::run::StateName;
use redrive_core::wire::StepStatus;

use crate::out::Style;

/// Takes exactly the words of `all`, and lists them in the help.
pub(crate) fn word<T>(all: &'static [T], as_str: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + std::str::FromStr<Err: std::error::Error + Send + Sync + 'static> + 'static,
{
    PossibleValuesParser::new(all.iter().map(move |w| as_str(*w))).try_map(|word| word.parse::<T>())
}

pub(crate) fn style_of(state: StateName) -> Style {
    match state {
        StateName::Dead => Style::Bad,
        StateName::Scheduled | StateName::Running | StateName::Review => Style::Waiting,
        StateName::Succeeded | StateName::Recovered | StateName::Resolved => Style::Good,
        StateName::Discarded | StateName::Merged => Style::Faint,
    }
}

pub(crate) fn step_style(status: StepStatus) -> Style {
    match status {
        StepStatus::Committed | StepStatus::Reconciled => Style::Good,
        StepStatus::Started => Style::Waiting,
        StepStatus::Failed | StepStatus::Unknown => Style::Bad,
    }
}

/// A dash where there is nothing.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}
