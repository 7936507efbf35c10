//! What is masked in payloads, headers and outputs before they are stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::redact::Redactor;
use crate::words::words;

words! {
    /// What becomes of a value that must not be stored in clear.
    pub enum RedactMode {
        /// It is gone before anything is stored; the run is not replayable until it is fixed.
        Mask = "mask",
        /// It is stored encrypted.
        Seal = "seal",
    }
}

/// One layer's redaction. `keys` and `pointers` of all layers add up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactLayer {
    /// Well-known secret shapes; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<bool>,
    /// Object keys at any depth, in any case (at most 100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = ENTRIES_MAX), inner(length(max = ENTRY_MAX_BYTES)))]
    pub keys: Option<Vec<String>>,
    /// JSON pointers (RFC 6901) into payloads (at most 100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = ENTRIES_MAX), inner(length(max = ENTRY_MAX_BYTES)))]
    pub pointers: Option<Vec<String>>,
    /// `mask`; the values are gone before anything is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RedactMode>,
}

const ENTRIES_MAX: u64 = 100;
const ENTRY_MAX_BYTES: usize = 500;

impl RedactLayer {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        let (keys, pointers) = (self.keys.as_deref().unwrap_or_default(), self.pointers.as_deref().unwrap_or_default());
        within("redact.keys", Some(keys.len() as u64), 0, ENTRIES_MAX)?;
        within("redact.pointers", Some(pointers.len() as u64), 0, ENTRIES_MAX)?;
        if keys.iter().any(|key| key.is_empty() || key.len() > ENTRY_MAX_BYTES) {
            return Err(BadSetting { field: "redact.keys", must_be: format!("names of 1 to {ENTRY_MAX_BYTES} bytes") });
        }
        if pointers.iter().any(|pointer| !pointer.starts_with('/') || pointer.len() > ENTRY_MAX_BYTES) {
            let must_be = format!("JSON pointers of at most {ENTRY_MAX_BYTES} bytes, such as /customer/email");
            return Err(BadSetting { field: "redact.pointers", must_be });
        }
        match self.mode {
            Some(RedactMode::Seal) => Err(BadSetting {
                field: "redact.mode",
                must_be: "mask: seal needs [encryption], which this server does not have".into(),
            }),
            Some(RedactMode::Mask) | None => Ok(()),
        }
    }

    pub(super) fn lay_over(&self, redactor: &mut Redactor) {
        redactor.secrets = self.secrets.unwrap_or(redactor.secrets);
        redactor.keys.extend(self.keys.iter().flatten().cloned());
        redactor.pointers.extend(self.pointers.iter().flatten().cloned());
    }

    /// Whether it can change anything.
    pub fn is_on(&self) -> bool {
        self.secrets == Some(true) || self.keys.iter().chain(&self.pointers).any(|all| !all.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_pointers_of_all_layers_add_up() {
        let some = |key: &str| Some(vec![key.to_owned()]);
        let mut redactor = Redactor::default();
        RedactLayer { secrets: Some(true), keys: some("a"), ..Default::default() }.lay_over(&mut redactor);
        RedactLayer { secrets: Some(false), keys: some("b"), pointers: some("/c"), ..Default::default() }
            .lay_over(&mut redactor);
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(redactor, Redactor { secrets: false, keys: all(&["a", "b"]), pointers: all(&["/c"]) });
    }

    #[test]
    fn seal_and_bad_pointers_are_refused() {
        let seal = RedactLayer { mode: Some(RedactMode::Seal), ..Default::default() };
        assert!(seal.check().unwrap_err().to_string().contains("seal needs [encryption]"));
        for wrong in ["", "customer", "customer/email"] {
            let layer = RedactLayer { pointers: Some(vec![wrong.into()]), ..Default::default() };
            assert_eq!(layer.check().unwrap_err().field, "redact.pointers");
        }
    }
}
