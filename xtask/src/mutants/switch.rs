//! Puts every mutant of a file behind a switch, so that one build holds all of them and a run of a test picks one.
//! cargo-mutants says what the mutants are; this says how each is written beside the code that it replaces.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The function that the switched code asks; it is added to the domain's crate.
pub(super) const FUNCTION: &str = "mutant_is";
/// The number of the mutant that is on in a process.
pub(super) const ACTIVE: &str = "MUTANT";
/// A file that a process notes each mutant in whose code it reaches.
pub(super) const REACHED: &str = "MUTANTS_REACHED";

/// Added to the end of the domain's `lib.rs`.
pub(super) fn function() -> String {
    format!(
        r#"
#[doc(hidden)]
pub fn {FUNCTION}(number: usize) -> bool {{
    use std::io::Write as _;
    use std::sync::atomic::{{AtomicBool, Ordering}};
    use std::sync::LazyLock;
    static ON: LazyLock<usize> =
        LazyLock::new(|| std::env::var("{ACTIVE}").ok().and_then(|number| number.parse().ok()).unwrap_or(usize::MAX));
    static REACHED: LazyLock<Option<std::fs::File>> =
        LazyLock::new(|| std::fs::File::create(std::env::var_os("{REACHED}")?).ok());
    static SEEN: [AtomicBool; 1 << 16] = [const {{ AtomicBool::new(false) }}; 1 << 16];
    if let Some(mut file) = REACHED.as_ref() && !SEEN[number].swap(true, Ordering::Relaxed) {{
        let _ = file.write_all(format!("{{number}}\n").as_bytes());
    }}
    *ON == number
}}
"#
    )
}

/// A place in a file as cargo-mutants and the parser of Rust both name it: line and column, from one.
pub(super) type Place = (usize, usize);

#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) number: usize,
    pub(super) genre: String,
    pub(super) start: Place,
    pub(super) replacement: String,
}

/// A text that goes into the file instead of `range`, on behalf of `numbers`.
struct Edit {
    range: Range<usize>,
    text: String,
    numbers: Vec<usize>,
    /// Whether it closes what an earlier one opened.
    closes: bool,
}

pub(super) struct Switched {
    pub(super) text: String,
    /// Where each mutant's own text stands in `text`.
    pub(super) pieces: Vec<(Range<usize>, Vec<usize>)>,
    /// The mutants that could be written.
    pub(super) written: Vec<usize>,
}

pub(super) fn switch(source: &str, path_of_function: &str, changes: &[Change]) -> Result<Switched> {
    let file = syn::parse_file(source).context("a file that is no Rust")?;
    let mut writer = Writer {
        source,
        lines: line_starts(source),
        ask: format!("{path_of_function}::{FUNCTION}"),
        at: BTreeMap::new(),
        edits: Vec::new(),
    };
    for change in changes {
        if change.genre == "FnValue" {
            let at = writer.offset(change.start);
            let text = format!("if {} {{ return {}; }} ", writer.on(change.number), change.replacement);
            writer.edits.push(Edit { range: at..at, text, numbers: vec![change.number], closes: false });
        } else {
            writer.at.entry(change.start).or_default().push(change.clone());
        }
    }
    writer.visit_file(&file);
    Ok(write(source, writer.edits))
}

fn line_starts(source: &str) -> Vec<usize> {
    std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

struct Writer<'a> {
    source: &'a str,
    lines: Vec<usize>,
    ask: String,
    at: BTreeMap<Place, Vec<Change>>,
    edits: Vec<Edit>,
}

impl Writer<'_> {
    fn on(&self, number: usize) -> String {
        format!("{}({number})", self.ask)
    }

    fn offset(&self, (line, column): Place) -> usize {
        let start = self.lines.get(line - 1).copied().unwrap_or(self.source.len());
        let rest = &self.source[start..];
        start + rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, spanned: &impl Spanned) -> Range<usize> {
        let span = spanned.span();
        self.offset((span.start().line, span.start().column + 1))..self.offset((span.end().line, span.end().column + 1))
    }

    fn take(&mut self, spanned: &impl Spanned, genre: &str) -> Vec<Change> {
        let start = spanned.span().start();
        let Some(here) = self.at.get_mut(&(start.line, start.column + 1)) else { return Vec::new() };
        let (taken, left) = std::mem::take(here).into_iter().partition(|change| change.genre == genre);
        *here = left;
        taken
    }

    fn edit(&mut self, range: Range<usize>, text: impl Into<String>, changes: &[Change], closes: bool) {
        let numbers = changes.iter().map(|change| change.number).collect();
        self.edits.push(Edit { range, text: text.into(), numbers, closes });
    }

    fn open(&mut self, at: usize, text: impl Into<String>, changes: &[Change]) {
        self.edit(at..at, text, changes, false);
    }

    fn close(&mut self, at: usize, text: impl Into<String>, changes: &[Change]) {
        self.edit(at..at, text, changes, true);
    }

    /// `if <the first is on> { its form } else if … else { the form as it is }`
    fn choice(&self, changes: &[Change], form: impl Fn(&str) -> String, as_it_is: &str) -> String {
        let mut text = String::new();
        for change in changes {
            text += &format!("if {} {{ {} }} else ", self.on(change.number), form(&change.replacement));
        }
        text + &format!("{{ {} }}", form(as_it_is))
    }

    fn any_on(&self, changes: &[Change]) -> String {
        changes.iter().map(|change| self.on(change.number)).collect::<Vec<_>>().join(" | ")
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let changes = self.take(&binary.op, "BinaryOperator");
        if changes.is_empty() || has_let(&binary.left) || has_let(&binary.right) {
            return;
        }
        let (left, op, right) = (self.range(&*binary.left), self.range(&binary.op), self.range(&*binary.right));
        let sign = self.source[op.clone()].to_owned();
        let on = self.any_on(&changes);
        match sign.as_str() {
            // Not (not a and not b) is a or b: both run as much as the mutant would.
            "&&" | "||" => {
                self.open(left.start, "((((", &changes);
                self.edit(op, format!(") ^ ({on})) {sign} (("), &changes, false);
                self.close(right.end, format!(") ^ ({on}))) ^ ({on}))"), &changes);
            }
            "==" | "!=" => {
                self.open(left.start, "(((", &changes);
                self.edit(op, format!(") {sign} ("), &changes, false);
                self.close(right.end, format!(")) ^ ({on}))"), &changes);
            }
            "<" | ">" | "<=" | ">=" => {
                let choice = self.choice(&changes, |sign| format!("l {sign} r"), &sign);
                self.open(left.start, "(match (&(", &changes);
                self.edit(op, "), &(", &changes, false);
                self.close(right.end, format!(")) {{ (l, r) => {choice} }})"), &changes);
            }
            assigned if assigned.ends_with('=') => {
                let target = self.source[left.clone()].to_owned();
                let choice = self.choice(&changes, |sign| format!("{target} {sign} r"), &sign);
                self.edit(left.start..op.end, "(match (", &changes, false);
                self.close(right.end, format!(") {{ r => {choice} }})"), &changes);
            }
            _ => {
                let choice = self.choice(&changes, |sign| format!("l {sign} r"), &sign);
                self.open(left.start, "(match ((", &changes);
                self.edit(op, "), (", &changes, false);
                self.close(right.end, format!(")) {{ (l, r) => {choice} }})"), &changes);
            }
        }
    }
}

/// A condition that binds names can't be turned round.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Writer<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        self.binary(binary);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let changes = self.take(unary, "UnaryOperator");
        if !changes.is_empty() {
            let (op, whole) = (self.range(&unary.op), self.range(unary));
            let on = self.any_on(&changes);
            if matches!(unary.op, syn::UnOp::Not(_)) {
                self.open(op.start, format!("(({on}) ^ "), &changes);
                self.close(whole.end, ")", &changes);
            } else {
                self.edit(op, "(match (", &changes, false);
                self.close(whole.end, format!(") {{ v => if {on} {{ v }} else {{ -v }} }})"), &changes);
            }
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let removed = self.take(arm, "MatchArm");
        if !removed.is_empty() {
            let on = self.any_on(&removed);
            match &arm.guard {
                Some((_, guard)) => {
                    let guard = self.range(&**guard);
                    self.open(guard.start, format!("!({on}) && ("), &removed);
                    self.close(guard.end, ")", &removed);
                }
                None => {
                    let end = self.range(&arm.pat).end;
                    self.close(end, format!(" if !({on})"), &removed);
                }
            }
        }
        if let Some((_, guard)) = &arm.guard
            && !has_let(guard)
        {
            let changes = self.take(&**guard, "MatchArmGuard");
            if !changes.is_empty() {
                let pick = |said: &str| changes.iter().filter(|change| change.replacement == said).cloned().collect();
                let (always, never): (Vec<Change>, Vec<Change>) = (pick("true"), pick("false"));
                let or_false =
                    |changes: &[Change]| if changes.is_empty() { "false".into() } else { self.any_on(changes) };
                let text = format!("(({}) || (!({}) && (", or_false(&always), or_false(&never));
                let range = self.range(&**guard);
                self.open(range.start, text, &changes);
                self.close(range.end, ")))", &changes);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, whole: &'ast syn::ExprStruct) {
        for field in &whole.fields {
            let changes = self.take(field, "StructField");
            let (Some(rest), syn::Member::Named(name)) = (&whole.rest, &field.member) else { continue };
            if changes.is_empty() {
                continue;
            }
            let base = self.source[self.range(&**rest)].to_owned();
            let kind = self.source[self.range(&whole.path)].to_owned();
            let base = if base == "Default::default()" { format!("<{kind}>::default()") } else { format!("({base})") };
            let on = self.any_on(&changes);
            let value = self.range(&field.expr);
            let label = if field.colon_token.is_none() { format!("{name}: ") } else { String::new() };
            self.open(value.start, format!("{label}if {on} {{ {base}.{name} }} else {{ "), &changes);
            self.close(value.end, " }", &changes);
        }
        visit::visit_expr_struct(self, whole);
    }
}

/// What opens stands in the order in which it was found, what closes in the reverse: the outer is found before the inner.
fn write(source: &str, edits: Vec<Edit>) -> Switched {
    let mut ordered: Vec<(usize, Edit)> = edits.into_iter().enumerate().collect();
    ordered.sort_by_key(|(found, edit)| {
        let order = isize::try_from(*found).unwrap_or(isize::MAX);
        (edit.range.start, !edit.closes, if edit.closes { -order } else { order })
    });
    let (mut text, mut pieces, mut written, mut at) = (String::new(), Vec::new(), Vec::new(), 0);
    for (_, edit) in ordered {
        // Text that an outer edit has replaced: it was copied as it is.
        if edit.range.start < at {
            continue;
        }
        text += &source[at..edit.range.start];
        let start = text.len();
        text += &edit.text;
        at = edit.range.end;
        written.extend(&edit.numbers);
        pieces.push((start..text.len(), edit.numbers));
    }
    text += &source[at..];
    written.sort_unstable();
    written.dedup();
    Switched { text, pieces, written }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switched(source: &str, changes: &[(&str, Place, &str)]) -> String {
        let changes: Vec<Change> = changes
            .iter()
            .enumerate()
            .map(|(number, (genre, start, replacement))| Change {
                number,
                genre: (*genre).to_owned(),
                start: *start,
                replacement: (*replacement).to_owned(),
            })
            .collect();
        let switched = switch(source, "m", &changes).unwrap();
        syn::parse_file(&switched.text).unwrap_or_else(|said| panic!("{said}: {}", switched.text));
        switched.text
    }

    #[test]
    fn a_function_answers_early_for_its_mutant() {
        assert_eq!(
            switched("fn f() -> u8 { 1 }", &[("FnValue", (1, 16), "0")]),
            "fn f() -> u8 { if m::mutant_is(0) { return 0; } 1 }"
        );
    }

    #[test]
    fn a_comparison_has_one_form_for_each_mutant() {
        assert_eq!(
            switched(
                "fn f(a: u8) -> bool { a < 2 }",
                &[("BinaryOperator", (1, 25), "<="), ("BinaryOperator", (1, 25), ">")]
            ),
            "fn f(a: u8) -> bool { (match (&(a ), &( 2)) { (l, r) => if m::mutant_is(0) { l <= r } else if m::mutant_is(1) { l > r } else { l < r } }) }"
        );
    }

    #[test]
    fn nested_conditions_are_switched_inside_out() {
        let said = switched(
            "fn f(a: u8, b: bool) -> bool { !b && a == 1 || b }",
            &[("BinaryOperator", (1, 45), "&&"), ("BinaryOperator", (1, 35), "||"), ("UnaryOperator", (1, 32), "")],
        );
        assert!(
            said.contains("m::mutant_is(0)") && said.contains("m::mutant_is(1)") && said.contains("m::mutant_is(2)"),
            "{said}"
        );
    }

    #[test]
    fn a_condition_that_binds_is_left_alone() {
        let source = "fn f(a: Option<u8>) -> u8 { if let Some(b) = a && b > 1 { b } else { 0 } }";
        assert_eq!(switched(source, &[("BinaryOperator", (1, 48), "||")]), source);
    }

    #[test]
    fn arms_guards_and_fields_are_switched() {
        let said = switched(
            "fn f(a: u8) -> P { match a { 1 if a > 0 => P { x: 1, ..Default::default() }, _ => P::default() } }",
            &[("MatchArmGuard", (1, 35), "true"), ("MatchArmGuard", (1, 35), "false"), ("StructField", (1, 48), "")],
        );
        assert!(said.contains("((m::mutant_is(0)) || (!(m::mutant_is(1)) && (a > 0)))"), "{said}");
        assert!(said.contains("x: if m::mutant_is(2) { <P>::default().x } else { 1 }"), "{said}");
    }
}
