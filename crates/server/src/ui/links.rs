//! Links to pages. Ids need no encoding; query values are encoded.

use redrive_core::ids::{RunId, Tenant};

pub(crate) fn run(tenant: &Tenant, run_id: &RunId) -> String {
    format!("/runs/{tenant}/{run_id}")
}

pub(crate) fn pattern(id: &str) -> String {
    format!("/patterns/{id}")
}

/// A path with a query made of these.
pub(crate) fn with<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The list of runs under a filter.
pub(crate) fn runs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    with("/runs", pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_encoded() {
        assert_eq!(runs([("state", "dead"), ("agent", "a&b=\"<")]), "/runs?state=dead&agent=a%26b%3D%22%3C");
        assert_eq!(runs([]), "/runs");
    }
}
