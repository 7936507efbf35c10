//! `[[model]]`: what models of the deployment's own take, or what it knows better than the catalogue.

use redrive_core::models::{ModelEntry, Models};
use toml::Spanned;
use toml::de::DeValue;

use super::complaint::{Complaint, Source};
use super::section::Section;

/// The tables under `[[model]]`. One that is wrong is named by its line, and nothing starts.
pub(super) fn models(source: Source<'_>, value: Spanned<DeValue<'_>>) -> Result<Models, Complaint> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(source.complain(&span, "`model` is a list of sections: write [[model]]"));
    };
    let mut entries = Vec::new();
    for table in tables {
        let mut section = Section::new(source, "model", table)?;
        let entry: ModelEntry = section.take()?;
        entry.check().map_err(|bad| section.complain_of_value(bad.field, bad.to_string()))?;
        section.finish()?;
        entries.push(entry);
    }
    Models::with(entries).map_err(|bad| source.complain(&span, bad.to_string()))
}
