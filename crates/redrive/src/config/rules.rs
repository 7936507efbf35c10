//! `[[rule]]`: rules of the deployment's own. What they mean is core's; here each mistake gets its place.

use std::sync::Arc;

use redrive_core::classify::user_rules::{UserRule, UserRules, compile};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::complaint::{Complaint, Source};

/// The rules of a file, in their order; none where it has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules(Option<Arc<UserRules>>);

impl Rules {
    pub(crate) fn compiled(&self) -> Option<Arc<UserRules>> {
        self.0.clone()
    }
}

/// The tables under `[[rule]]`. One that is wrong is named by its line, and nothing starts.
pub(super) fn rules(source: Source<'_>, value: Spanned<DeValue<'_>>) -> Result<Rules, Complaint> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(source.complain(&span, "`rule` is a list of sections: write [[rule]]"));
    };
    let places: Vec<_> = tables.iter().map(Spanned::span).collect();
    let mut rules = Vec::new();
    for table in tables {
        let span = table.span();
        let read = UserRule::deserialize(ValueDeserializer::from(table));
        rules.push(read.map_err(|error| {
            let complaint = source.complain_of(&error);
            if error.span().is_some() { complaint } else { source.complain(&span, error.message().to_owned()) }
        })?);
    }
    let compiled = compile(rules).map_err(|error| {
        let place = places.get(error.index).unwrap_or(&span);
        // One line, whatever an expression's parser draws.
        source.complain(place, error.message.split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    Ok(Rules(Some(Arc::new(compiled))))
}
