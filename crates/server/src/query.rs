//! Query parameters: only known names, each at most once, each of its type.

use std::str::FromStr;

use redrive_core::ids::{ID_MAX_BYTES, ID_PATTERN, Tenant};
use redrive_core::text::LABEL_MAX_BYTES;
use redrive_core::wire::bounds::TIME_MAX_BYTES;
use serde_json::{Value, json};

use crate::limits::{CURSOR_MAX_BYTES, PAGE_DEFAULT, PAGE_MAX, QUERY_LIST_MAX, QUERY_LIST_MAX_BYTES, SEARCH_MAX_BYTES};
use crate::problem::{Code, HttpProblem, Result, quoted};

/// A parameter as the API describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: ParamKind,
}

/// The type and bounds of a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParamKind {
    Id,
    /// A free name.
    Name,
    /// One of a few words, `true` and `false` among them.
    Word,
    /// A comma list.
    List,
    Time,
    Number {
        min: u64,
        max: u64,
    },
    /// A search text.
    Search,
    /// A cursor from an earlier answer.
    Cursor,
}

impl ParamKind {
    const fn max_bytes(self) -> usize {
        match self {
            Self::Id => ID_MAX_BYTES,
            Self::Name => LABEL_MAX_BYTES,
            Self::Word | Self::Time | Self::Number { .. } => TIME_MAX_BYTES,
            Self::List => QUERY_LIST_MAX_BYTES,
            Self::Search => SEARCH_MAX_BYTES,
            Self::Cursor => CURSOR_MAX_BYTES,
        }
    }

    /// Checks the bounds of a value.
    fn check(self, name: &str, value: &str) -> Result<()> {
        let beyond = |max: usize, unit: &str| {
            let problem = HttpProblem::invalid_parameter(name, format_args!("must be at most {max} {unit}"));
            Err(problem.with("max", max))
        };
        if value.len() > self.max_bytes() {
            return match self {
                Self::Id => Err(HttpProblem::bad_id(name)),
                _ => beyond(self.max_bytes(), "bytes"),
            };
        }
        match self {
            Self::List if value.split(',').count() > QUERY_LIST_MAX => beyond(QUERY_LIST_MAX, "values"),
            Self::Number { min, max } => match value.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                Ok(_) => {
                    let problem = HttpProblem::invalid_parameter(name, format_args!("must be from {min} to {max}"));
                    Err(problem.with("max", max))
                }
                Err(_) => Err(HttpProblem::invalid_parameter(name, "must be a number")),
            },
            _ => Ok(()),
        }
    }

    pub(crate) fn schema(self) -> Value {
        let text = |more: Value| {
            let mut schema = json!({ "type": "string", "maxLength": self.max_bytes() });
            if let (Value::Object(schema), Value::Object(more)) = (&mut schema, more) {
                schema.extend(more);
            }
            schema
        };
        match self {
            Self::Id => text(json!({ "pattern": ID_PATTERN })),
            Self::List => text(json!({ "x-max-items": QUERY_LIST_MAX })),
            Self::Time => text(json!({ "format": "date-time" })),
            Self::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Self::Name | Self::Word | Self::Search | Self::Cursor => text(json!({})),
        }
    }
}

pub(crate) const fn param(name: &'static str, kind: ParamKind, about: &'static str) -> Param {
    Param { name, about, kind }
}

pub(crate) const TENANT: Param =
    param("tenant", ParamKind::Id, "The tenant; required when a key that spans tenants acts on one run.");
pub(crate) const LIMIT: Param =
    param("limit", ParamKind::Number { min: 1, max: PAGE_MAX as u64 }, "Page size: 50 by default, at most 500.");
pub(crate) const CURSOR: Param = param("cursor", ParamKind::Cursor, "`next_cursor` of the previous page.");

/// A type that a handler takes as its query.
pub(crate) trait FromQuery: Sized + Send + 'static {
    const PARAMS: &'static [Param];

    fn read(given: &mut RawQuery) -> Result<Self>;
}

/// The parameters that were sent.
#[derive(Debug)]
pub(crate) struct RawQuery(Vec<(String, String)>);

impl RawQuery {
    pub(crate) fn parse<Q: FromQuery>(raw: Option<&str>) -> Result<Q> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let Some(param) = Q::PARAMS.iter().find(|p| p.name == name) else {
                let name = quoted(&name);
                return Err(HttpProblem::new(Code::UnknownParameter, format!("unknown query parameter `{name}`"))
                    .with("parameter", name));
            };
            if given.iter().any(|(n, _)| *n == name) {
                return Err(HttpProblem::invalid_parameter(
                    &name,
                    "must be given at most once; separate several values by commas",
                ));
            }
            param.kind.check(param.name, &value)?;
            given.push((name.into_owned(), value.into_owned()));
        }
        Q::read(&mut Self(given))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Drops empty values, as forms send them.
    pub(crate) fn drop_empty(&mut self) {
        self.0.retain(|(_, value)| !value.trim().is_empty());
    }

    pub(crate) fn edit(&mut self, name: &str, by: impl FnOnce(String) -> String) {
        if let Some(text) = self.take(name) {
            self.0.push((name.to_owned(), by(text)));
        }
    }

    pub(crate) fn one<T: FromStr>(&mut self, name: &str, must: &str) -> Result<Option<T>> {
        let parse = |text: String| text.parse().map_err(|_| HttpProblem::invalid_parameter(name, must));
        self.take(name).map(parse).transpose()
    }

    /// `a,b,c`.
    pub(crate) fn list<T: FromStr>(&mut self, name: &str, must: &str) -> Result<Vec<T>> {
        let Some(text) = self.take(name) else { return Ok(Vec::new()) };
        text.split(',').map(|word| word.parse().map_err(|_| HttpProblem::invalid_parameter(name, must))).collect()
    }

    /// An id; a malformed one is `bad_id`.
    pub(crate) fn id<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        self.take(name).map(|text| text.parse().map_err(|_| HttpProblem::bad_id(name))).transpose()
    }

    pub(crate) fn limit(&mut self) -> Result<u32> {
        Ok(self.one("limit", "must be a number")?.unwrap_or(PAGE_DEFAULT))
    }
}

/// No parameters.
#[derive(Debug)]
pub(crate) struct NoQuery;

impl FromQuery for NoQuery {
    const PARAMS: &'static [Param] = &[];

    fn read(_: &mut RawQuery) -> Result<Self> {
        Ok(Self)
    }
}

/// `?tenant=` alone.
#[derive(Debug)]
pub(crate) struct TenantQuery {
    pub tenant: Option<Tenant>,
}

impl FromQuery for TenantQuery {
    const PARAMS: &'static [Param] = &[TENANT];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of a list.
    #[derive(Debug)]
    struct Paged {
        _tenant: Option<Tenant>,
        limit: u32,
        cursor: Option<String>,
    }

    impl FromQuery for Paged {
        const PARAMS: &'static [Param] = &[TENANT, LIMIT, CURSOR];

        fn read(given: &mut RawQuery) -> Result<Self> {
            Ok(Self { _tenant: given.id("tenant")?, limit: given.limit()?, cursor: given.take("cursor") })
        }
    }

    #[test]
    fn a_bad_query_parameter_is_named() {
        for (query, code, parameter) in [
            ("tenannt=a", Code::UnknownParameter, "tenannt"),
            ("tenant=a&tenant=b", Code::InvalidParameter, "tenant"),
            ("limit=0", Code::InvalidParameter, "limit"),
            ("limit=501", Code::InvalidParameter, "limit"),
            ("limit=ten", Code::InvalidParameter, "limit"),
        ] {
            let problem = RawQuery::parse::<Paged>(Some(query)).unwrap_err();
            assert_eq!(
                (problem.code, problem.into_wire().more["parameter"].as_str()),
                (code, Some(parameter)),
                "{query}"
            );
        }
        assert_eq!(RawQuery::parse::<Paged>(Some("tenant=a%20b")).unwrap_err().code, Code::BadId);
        let paged = RawQuery::parse::<Paged>(Some("cursor=x%2By&limit=7")).unwrap();
        assert_eq!((paged.limit, paged.cursor.as_deref()), (7, Some("x+y")));
    }
}
