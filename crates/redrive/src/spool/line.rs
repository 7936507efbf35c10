//! A line of a spool: the CRC-32 of the rest as eight hex digits, a space, and one JSON object.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One thing said of a run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Record {
    #[serde(rename = "do")]
    pub(super) what: What,
    /// The start's id, which ties the lines of one attempt together.
    pub(super) run: String,
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) tenant: Option<String>,
    /// None while the start was not answered.
    #[serde(default)]
    pub(super) lease: Option<String>,
    /// The request's JSON, without the lease.
    pub(super) body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    Start,
    Step,
    Succeed,
    Fail,
    Release,
}

impl What {
    /// The last part of the path.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Start => "runs",
            Self::Step => "steps",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::Release => "release",
        }
    }

    pub(super) fn ends_the_attempt(self) -> bool {
        match self {
            Self::Succeed | Self::Fail | Self::Release => true,
            Self::Start | Self::Step => false,
        }
    }
}

impl Record {
    /// The body with the lease in front and nothing else changed: the same line is the same bytes, whoever sends it.
    pub(super) fn under(&self, lease: &str) -> String {
        let lease = serde_json::Value::from(lease);
        match self.body.trim_start_matches('{') {
            "}" => format!("{{\"lease\":{lease}}}"),
            rest => format!("{{\"lease\":{lease},{rest}"),
        }
    }
}

/// The object of a line; none for one that was cut off, or has changed since it was written.
pub(super) fn open<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let text = line.strip_suffix(b"\n")?;
    let (sum, text) = text.split_at_checked(8)?;
    let sum = u32::from_str_radix(str::from_utf8(sum).ok()?, 16).ok()?;
    let text = text.strip_prefix(b" ")?;
    (crc32(text) == sum).then(|| serde_json::from_slice(text).ok())?
}

pub(super) fn seal(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_string(value)?;
    Ok(format!("{:08x} {text}\n", crc32(text.as_bytes())).into_bytes())
}

/// As zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_that_zlib_makes() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_line_that_was_cut_off_or_changed_is_no_line() {
        let line = seal(&serde_json::json!({"do": "step", "run": "r", "run_id": "a", "body": "{}"})).unwrap();
        assert_eq!(open::<Record>(&line).unwrap().what, What::Step);
        assert!(open::<Record>(&line[..line.len() - 1]).is_none(), "cut off");
        let changed: Vec<u8> = line.iter().map(|byte| if *byte == b'a' { b'b' } else { *byte }).collect();
        assert!(open::<Record>(&changed).is_none(), "changed");
    }

    #[test]
    fn the_lease_goes_in_front_and_nothing_else_changes() {
        let record = |body: &str| {
            let fields = serde_json::json!({"do": "fail", "run": "r", "run_id": "a", "body": body});
            open::<Record>(&seal(&fields).unwrap()).unwrap()
        };
        assert_eq!(record(r#"{"a":1.0}"#).under("x\"y"), r#"{"lease":"x\"y","a":1.0}"#);
        assert_eq!(record("{}").under("l"), r#"{"lease":"l"}"#);
    }
}
