//! Why the classifier said what it said, for people: `redrive classify --explain`.

use std::fmt;

use super::decide::{self, Candidate, Classified, Scene};
use super::evidence::Evidence;
use super::matcher::MATCHER;
use super::page::Page;
use super::place::Place;

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static str,
    pub reason: String,
    /// The field it was found in.
    pub field: &'static str,
    /// The letters that matched, without what stands between words.
    pub matched: String,
    pub weight: i16,
}

/// The answer and how it came about.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub classified: Classified,
    /// Everything that matched, heaviest first.
    pub findings: Vec<Finding>,
    pub place: Option<Place>,
    /// The status that was given or read from the text.
    pub status: Option<u16>,
    /// Lines left out as stack frames.
    pub frames_skipped: usize,
    /// Whether the text wraps a cause that was weighed apart.
    pub unwrapped: bool,
}

pub fn explain(evidence: &Evidence<'_>) -> Explanation {
    let page = Page::of(evidence);
    let found = MATCHER.find(&page);
    let scene = Scene::of(evidence, &found);
    let classified = decide::conclude(evidence, &scene, decide::strongest(&scene, &page, &found));
    let mut candidates: Vec<Candidate> = decide::candidates(&scene, &page, &found).collect();
    candidates.sort_by_key(|c| std::cmp::Reverse((c.weight, c.found.end - c.found.start)));
    candidates.dedup_by_key(|c| c.rule.name);
    Explanation {
        classified,
        findings: candidates.iter().map(|c| finding(c, &page)).collect(),
        place: scene.place,
        status: scene.status,
        frames_skipped: page.frames,
        unwrapped: page.spans.iter().any(|s| s.adjust != 0),
    }
}

fn finding(candidate: &Candidate, page: &Page) -> Finding {
    let matched = &page.letters[candidate.found.start..candidate.found.end];
    Finding {
        rule: candidate.rule.name,
        reason: candidate.rule.reason.to_string(),
        field: candidate.field.as_str(),
        matched: String::from_utf8_lossy(matched).into_owned(),
        weight: candidate.weight,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Classified { reason, category, rule, .. } = &self.classified;
        writeln!(f, "{reason} ({category}) by {rule}")?;
        if let Some(place) = self.place {
            writeln!(f, "  where: {}", place.as_str())?;
        }
        if let Some(status) = self.status {
            writeln!(f, "  status: {status}")?;
        }
        if self.frames_skipped > 0 {
            writeln!(f, "  left out: {} lines of stack trace", self.frames_skipped)?;
        }
        if self.unwrapped {
            writeln!(f, "  unwrapped: parts of the text wrap or surround others and weigh differently")?;
        }
        for (nth, finding) in self.findings.iter().enumerate() {
            let verdict = if finding.rule == rule.as_ref() { "wins" } else { "weaker" };
            let Finding { rule, reason, field, matched, weight } = finding;
            writeln!(f, "  {}. {rule} → {reason}, weight {weight} ({verdict}): \"{matched}\" in the {field}", nth + 1)?;
        }
        if self.findings.is_empty() {
            writeln!(f, "  no phrase of any rule was found")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_winner_and_losers() {
        let evidence = Evidence::of("RateLimitError: You exceeded your current quota, insufficient_quota");
        let said = explain(&evidence).to_string();
        assert!(said.starts_with("quota_exhausted (conditional) by builtin.quota."), "{said}");
        assert!(said.contains("builtin.rate"), "{said}");
        assert!(said.contains("(weaker)"), "{said}");
    }
}
