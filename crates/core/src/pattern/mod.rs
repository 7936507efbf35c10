//! Fingerprints: parts of a message that differ from request to request are masked, names of the failing part stay, and the
//! same failure has the same fingerprint on every replica and after every restart. The store maps fingerprints to patterns.

mod scan;
mod template;
mod trace;
mod word;

use std::fmt;

use crate::classify::Evidence;
use crate::hash::Fnv;
use crate::reason::Reason;

pub use template::{Mask, MaskedPart};
pub use trace::is_own_frame;

use template::Template;

/// Rises whenever the same evidence may get another fingerprint than before.
pub const FINGERPRINT_VERSION: u8 = 1;

/// How much of a message is read. What a failure has in common with others stands at its front.
const READ_BYTES: usize = 6 * 1024;

/// The fingerprint of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    pub version: u8,
    pub hash: u64,
    /// Readable: masked parts as `‹n›`, `‹id›`, `‹url›`.
    pub template: String,
}

impl Fingerprint {
    /// A group named by a user rule: its hash comes from the name alone.
    pub fn named(name: &str) -> Self {
        let mut hash = Fnv::new();
        // No template begins like this, so that a name meets no message by accident.
        hash.write(b"\0named\0");
        hash.write(name.as_bytes());
        Self { version: FINGERPRINT_VERSION, hash: hash.finish(), template: name.to_owned() }
    }

    /// The fingerprint as it is stored and shown: version and hash.
    pub fn id(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.version, self.hash)
    }
}

/// The fingerprint of a failure. The reason counts only where there is no text to tell failures apart.
pub fn fingerprint(evidence: &Evidence<'_>, reason: &Reason) -> Fingerprint {
    let template = read(evidence, reason);
    Fingerprint { version: FINGERPRINT_VERSION, hash: template.hash(), template: template.into_text() }
}

/// Which parts of the message were masked, and as what: why it is grouped with others.
pub fn why_grouped(evidence: &Evidence<'_>) -> Vec<MaskedPart> {
    let mut template = Template::recording();
    message(evidence, &mut template);
    template.into_parts()
}

fn read(evidence: &Evidence<'_>, reason: &Reason) -> Template {
    let mut template = Template::new();
    if let Some(class) = evidence.error_type.map(last_name).filter(|class| !evidence.text.contains(class)) {
        scan::mask_into(class, &mut template);
        template.plain(": ");
    }
    message(evidence, &mut template);
    if template.is_blank() {
        template.plain(reason.as_str());
    }
    if let Some(tool) = evidence.tool.filter(|tool| !evidence.text.contains(tool)) {
        template.plain(" in ");
        template.plain(tool);
    }
    template
}

fn message(evidence: &Evidence<'_>, template: &mut Template) {
    let mut frames = trace::Frames::default();
    trace::read(crate::classify::text::head(evidence.text, READ_BYTES), template, &mut frames);
    if let Some(detail) = evidence.detail {
        let (head, tail) = crate::classify::text::ends(detail, READ_BYTES, READ_BYTES);
        frames.add_all(head);
        frames.add_all(tail);
    }
    for frame in frames.chosen() {
        template.plain(" at ");
        scan::mask_file(frame.file, template);
        template.plain(":");
        template.plain(frame.function);
    }
}

/// `openai.RateLimitError` is `RateLimitError` wherever it is imported from.
fn last_name(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

#[cfg(test)]
mod tests;
