//! One table of the file on its way to typed values. Several types may each take the keys they know; what nobody took
//! is unknown.

use std::collections::BTreeMap;
use std::ops::Range;

use redrive_core::policy::PolicyLayer;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::complaint::{Complaint, Source};
use super::fields::{fields, nearest};

pub(super) struct Section<'a> {
    source: Source<'a>,
    /// As written: `queue.mail`.
    name: String,
    span: Range<usize>,
    left: DeTable<'a>,
    /// Where each key and its value stand.
    places: BTreeMap<String, (Range<usize>, Range<usize>)>,
    known: Vec<String>,
}

impl<'a> Section<'a> {
    pub(super) fn new(source: Source<'a>, name: &str, value: Spanned<DeValue<'a>>) -> Result<Self, Complaint> {
        let span = value.span();
        let DeValue::Table(left) = value.into_inner() else {
            return Err(source.complain(&span, format!("`{name}` is a section: write [{name}]")));
        };
        let places = left.iter().map(|(key, value)| (key.get_ref().to_string(), (key.span(), value.span()))).collect();
        Ok(Self { source, name: name.into(), span, left, places, known: Vec::new() })
    }

    /// Takes the keys that are `T`'s.
    pub(super) fn take<T: DeserializeOwned + JsonSchema>(&mut self) -> Result<T, Complaint> {
        let mut own = DeTable::new();
        for field in fields::<T>() {
            if let Some((key, value)) = self.left.remove_entry(field.name.as_str()) {
                own.insert(key, value);
            }
            self.known.push(field.name);
        }
        let table = ValueDeserializer::from(Spanned::new(self.span.clone(), DeValue::Table(own)));
        T::deserialize(table).map_err(|error| self.source.complain_of(&error))
    }

    pub(super) fn take_policy(&mut self) -> Result<PolicyLayer, Complaint> {
        let policy: PolicyLayer = self.take()?;
        // A figure in a section of its own is pointed at by that section.
        let key = |field: &'static str| field.split('.').next().unwrap_or(field);
        policy.check().map_err(|bad| self.complain_of_value(key(bad.field), bad.to_string()))?;
        Ok(policy)
    }

    pub(super) fn complain_of_value(&self, key: &str, what: impl Into<String>) -> Complaint {
        self.source.complain(self.places.get(key).map_or(&self.span, |(_, value)| value), what)
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self) -> Result<(), Complaint> {
        let Some(key) = self.left.keys().next() else { return Ok(()) };
        let known = self.known.iter().map(String::as_str);
        let hint = nearest(key.get_ref(), known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Err(self.source.complain(&key.span(), format!("unknown key `{}` in [{}]{hint}", key.get_ref(), self.name)))
    }
}
