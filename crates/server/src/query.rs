//! Query parameters: only known names, each at most once, each of its type.

use std::str::FromStr;

use redrive_core::ids::Tenant;

use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::{Code, Problem, Result, quoted};

/// A parameter as the API describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub name: &'static str,
    pub about: &'static str,
}

pub(crate) const TENANT: Param =
    Param { name: "tenant", about: "Which tenant's; needed where a key that spans tenants acts on one run." };
pub(crate) const LIMIT: Param = Param { name: "limit", about: "How many on a page: 50 unless told, at most 500." };
pub(crate) const CURSOR: Param = Param { name: "cursor", about: "`next_cursor` of the page before." };

/// What a handler takes as its query.
pub(crate) trait FromQuery: Sized + Send + 'static {
    const PARAMS: &'static [Param];

    fn read(given: &mut Given) -> Result<Self>;
}

/// The parameters that were sent, each taken out by the handler's type.
#[derive(Debug)]
pub(crate) struct Given(Vec<(String, String)>);

impl Given {
    pub(crate) fn parse<Q: FromQuery>(raw: Option<&str>) -> Result<Q> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            if !Q::PARAMS.iter().any(|p| p.name == name) {
                let name = quoted(&name);
                return Err(
                    Problem::new(Code::UnknownParameter, format!("`{name}` is not known here")).with("parameter", name)
                );
            }
            if given.iter().any(|(n, _)| *n == name) {
                return Err(Problem::invalid_parameter(&name, "may be given once; many values go in a comma list"));
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Q::read(&mut Self(given))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// What a form left empty asks for nothing.
    pub(crate) fn drop_empty(&mut self) {
        self.0.retain(|(_, value)| !value.trim().is_empty());
    }

    pub(crate) fn edit(&mut self, name: &str, by: impl FnOnce(String) -> String) {
        if let Some(text) = self.take(name) {
            self.0.push((name.to_owned(), by(text)));
        }
    }

    pub(crate) fn one<T: FromStr>(&mut self, name: &str, must: &str) -> Result<Option<T>> {
        let parse = |text: String| text.parse().map_err(|_| Problem::invalid_parameter(name, must));
        self.take(name).map(parse).transpose()
    }

    /// `a,b,c`.
    pub(crate) fn list<T: FromStr>(&mut self, name: &str, must: &str) -> Result<Vec<T>> {
        let Some(text) = self.take(name) else { return Ok(Vec::new()) };
        text.split(',').map(|word| word.parse().map_err(|_| Problem::invalid_parameter(name, must))).collect()
    }

    /// An id: what is not well formed has its own code.
    pub(crate) fn id<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        self.take(name).map(|text| text.parse().map_err(|_| Problem::bad_id(name))).transpose()
    }

    pub(crate) fn limit(&mut self) -> Result<u32> {
        let limit = self.one("limit", "must be a number")?.unwrap_or(PAGE_DEFAULT);
        if (1..=PAGE_MAX).contains(&limit) {
            Ok(limit)
        } else {
            Err(Problem::invalid_parameter("limit", format_args!("must be from 1 to {PAGE_MAX}")))
        }
    }
}

/// The call takes no parameters.
#[derive(Debug)]
pub(crate) struct NoQuery;

impl FromQuery for NoQuery {
    const PARAMS: &'static [Param] = &[];

    fn read(_: &mut Given) -> Result<Self> {
        Ok(Self)
    }
}

/// `?tenant=` alone.
#[derive(Debug)]
pub(crate) struct OfTenant {
    pub tenant: Option<Tenant>,
}

impl FromQuery for OfTenant {
    const PARAMS: &'static [Param] = &[TENANT];

    fn read(given: &mut Given) -> Result<Self> {
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

        fn read(given: &mut Given) -> Result<Self> {
            Ok(Self { _tenant: given.id("tenant")?, limit: given.limit()?, cursor: given.take("cursor") })
        }
    }

    #[test]
    fn a_parameter_that_is_unknown_doubled_or_out_of_range_is_named() {
        for (query, code, parameter) in [
            ("tenannt=a", Code::UnknownParameter, "tenannt"),
            ("tenant=a&tenant=b", Code::InvalidParameter, "tenant"),
            ("limit=0", Code::InvalidParameter, "limit"),
            ("limit=501", Code::InvalidParameter, "limit"),
            ("limit=ten", Code::InvalidParameter, "limit"),
        ] {
            let problem = Given::parse::<Paged>(Some(query)).unwrap_err();
            assert_eq!(
                (problem.code, problem.into_wire().more["parameter"].as_str()),
                (code, Some(parameter)),
                "{query}"
            );
        }
        assert_eq!(Given::parse::<Paged>(Some("tenant=a%20b")).unwrap_err().code, Code::BadId);
        let paged = Given::parse::<Paged>(Some("cursor=x%2By&limit=7")).unwrap();
        assert_eq!((paged.limit, paged.cursor.as_deref()), (7, Some("x+y")));
    }
}
