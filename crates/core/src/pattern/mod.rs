//! What a failure has in common with others.

use crate::classify::Evidence;
use crate::reason::Reason;

pub const FINGERPRINT_VERSION: u8 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint {
    pub version: u8,
    pub hash: u64,
    pub template: String,
}

pub fn fingerprint(evidence: &Evidence<'_>, _reason: &Reason) -> Fingerprint {
    let template: String = evidence.text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    let hash =
        template.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    Fingerprint { version: FINGERPRINT_VERSION, hash, template }
}
