//! Figures with their goals, as a table and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// One line of the bench.
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    /// At least (positive) or at most (negative); none: only printed.
    goal: Option<f64>,
}

#[derive(Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    pub fn note(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.push(what.into(), value, unit, None);
    }

    pub fn at_least(&mut self, what: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.push(what.into(), value, unit, Some(goal));
    }

    pub fn at_most(&mut self, what: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.push(what.into(), value, unit, Some(-goal));
    }

    fn push(&mut self, what: String, value: f64, unit: &'static str, goal: Option<f64>) {
        let figure = Figure { what, value, unit, goal };
        println!("  {figure}");
        self.0.push(figure);
    }

    pub fn to_json(&self) -> String {
        let rows: Vec<Value> = self
            .0
            .iter()
            .map(|f| json!({"what": f.what, "value": f.value, "unit": f.unit, "goal": f.goal_in_words(), "met": f.is_met()}))
            .collect();
        format!("{:#}\n", Value::from(rows))
    }
}

impl Figure {
    fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| if goal >= 0.0 { self.value >= goal } else { self.value <= -goal })
    }

    fn goal_in_words(&self) -> Option<String> {
        self.goal.map(|goal| if goal >= 0.0 { format!("≥ {goal}") } else { format!("≤ {}", -goal) })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.value >= 1_000.0 { format!("{:.0}", self.value) } else { format!("{:.3}", self.value) };
        write!(f, "{:<74} {value:>12} {:<6}", self.what, self.unit)?;
        match self.goal_in_words() {
            Some(goal) => write!(f, " {goal:<8} {}", if self.is_met() { "met" } else { "MISSED" }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nAll figures of this run:")?;
        self.0.iter().try_for_each(|figure| writeln!(f, "{figure}"))
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The ratio of two figures, pair by pair: machine speed drifts, and both halves of a pair see the same speed.
pub fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
}
