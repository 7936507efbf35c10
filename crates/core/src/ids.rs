//! Identifiers that callers choose: validated once at the edge, then a type each.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub const ID_MAX_BYTES: usize = 200;
pub const ID_PATTERN: &str = "^[A-Za-z0-9._:@-]{1,200}$";

/// A name outside `[A-Za-z0-9._:@-]{1,200}`, or `.` or `..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 1 to 200 characters of A-Z a-z 0-9 . _ : @ - and neither `.` nor `..`")]
pub struct BadId;

fn check(name: &str) -> Result<(), BadId> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:@-".contains(&b);
    let fits = (1..=ID_MAX_BYTES).contains(&name.len());
    (fits && name != "." && name != ".." && name.bytes().all(plain)).then_some(()).ok_or(BadId)
}

/// Parses an id in place, without an intermediate string.
struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> de::Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(s: &str) -> Result<Self, BadId> {
                check(s).map(|()| Self(s.into()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed(PhantomData))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": ID_PATTERN, "maxLength": ID_MAX_BYTES })
            }
        }
    };
}

id!(
    /// A run's name, chosen by the producer and kept over retries; unique within a tenant.
    RunId
);
id!(
    /// Whose work it is.
    Tenant
);
id!(
    /// A named stream of runs with an owner, a runbook and a policy.
    QueueName
);
id!(
    /// What makes a step or an effect the same one again.
    StepKey
);
id!(
    /// What a caller uses to recognise its own request.
    IdempotencyKey
);
id!(
    /// Runs that share it are executed one at a time.
    OrderKey
);

id!(
    /// What makes one call of a tool the same one again, should its answer get lost.
    CallId
);

/// A text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a UUID is 32 hexadecimal digits in groups of 8-4-4-4-12")]
pub struct BadUuid;

/// A UUID that a client has made, in one canonical form: with hyphens, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(Arc<str>);

impl Uuid {
    const PATTERN: &'static str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(s: &str) -> Result<Self, BadUuid> {
        let groups: Vec<&str> = s.split('-').collect();
        let lengths = groups.iter().map(|group| group.len());
        let is_hex = |group: &&str| group.bytes().all(|b| b.is_ascii_hexdigit());
        let fits = lengths.eq([8, 4, 4, 4, 12]) && groups.iter().all(is_hex);
        fits.then(|| Self(s.to_ascii_lowercase().into())).ok_or(BadUuid)
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed(PhantomData))
    }
}

impl JsonSchema for Uuid {
    fn schema_name() -> Cow<'static, str> {
        "Uuid".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uuid", "pattern": Self::PATTERN, "maxLength": 36 })
    }
}

impl Tenant {
    /// The tenant of a key made without naming one.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

impl QueueName {
    /// The queue of a report that names none.
    pub const DEFAULT: &'static str = "default";

    pub fn default_queue() -> Self {
        Self(Self::DEFAULT.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_outside_the_pattern_are_refused() {
        let long = "a".repeat(201);
        for bad in ["", ".", "..", "a b", "a/b", "ä", "a\0", long.as_str()] {
            assert_eq!(bad.parse::<RunId>(), Err(BadId), "{bad:?}");
        }
        for good in ["a", "...", "task-42:v1@acme.x_Y", &long[..200]] {
            assert!(good.parse::<RunId>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn uuids_have_one_canonical_form() {
        let canonical = "0b9e1c1e-5c0a-4c58-9e9b-0123456789ab";
        for same in [canonical, "0B9E1C1E-5C0A-4C58-9E9B-0123456789AB"] {
            assert_eq!(same.parse::<Uuid>().unwrap().as_str(), canonical);
        }
        let braced = format!("{{{canonical}}}");
        for bad in ["", "0b9e", &canonical.replace('-', ""), &braced, "0b9e1c1e-5c0a-4c58-9e9b-0123456789ag"] {
            assert_eq!(bad.parse::<Uuid>(), Err(BadUuid), "{bad:?}");
        }
    }
}
