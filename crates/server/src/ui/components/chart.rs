//! SVG charts without script or inline style. Each comes with a description and a table.

use maud::{Markup, html};

const WIDTH: f64 = 870.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 36.0;
const TOP: f64 = 8.0;

/// One bar: its name, a value for each series, and a point of the line over the bars.
pub(crate) struct ChartBar {
    pub(crate) name: String,
    pub(crate) values: Vec<u64>,
    pub(crate) line: Option<u64>,
}

/// Stacked bars. `series` has a class and a name for each value, from the bottom up. `line` names the line over the
/// bars.
pub(crate) fn bars(about: &str, series: &[(&str, &str)], line: Option<&str>, bars: &[ChartBar]) -> Markup {
    let heights = bars.iter().map(|bar| bar.values.iter().sum::<u64>().max(bar.line.unwrap_or(0)));
    let most = heights.max().unwrap_or(0);
    let top = nice(most);
    html! {
        svg viewBox="0 0 870 178" width="100%" role="img" aria-label=(about) {
            @for step in 0..=2_u64 { (grid(top, step)) }
            @for (at, bar) in bars.iter().enumerate() { (stack(at, bars.len(), bar, series, top)) }
            @if line.is_some() { polyline class="s-over" points=(over(bars, top)) {} }
            @for (at, bar) in bars.iter().enumerate().step_by((bars.len() / 4).max(1)).take(4) {
                text x=(number(left(at, bars.len()))) y="170" { (bar.name) }
            }
        }
        details.data {
            summary { "As a table" }
            div.scroll { table {
                thead {
                    tr {
                        th { "Time" } @for (_, word) in series { th.num { (word) } }
                        @if let Some(word) = line { th.num { (word) } }
                    }
                }
                tbody { @for bar in bars {
                    tr {
                        td { (bar.name) }
                        @for value in bar.values.iter().chain(&bar.line) { td.num { (super::grouped(*value)) } }
                    }
                } }
            } }
        }
    }
}

fn grid(top: u64, step: u64) -> Markup {
    let value = top * step / 2;
    let y = y_of(value, top);
    html! {
        line class="s-line" x1=(number(LEFT)) x2=(number(WIDTH - 8.0)) y1=(number(y)) y2=(number(y)) {}
        text x=(number(LEFT - 6.0)) y=(number(y + 4.0)) text-anchor="end" { (super::grouped(value)) }
    }
}

fn over(bars: &[ChartBar], top: u64) -> String {
    let middle = step(bars.len()) * 0.38;
    let point = |(at, bar): (usize, &ChartBar)| {
        format!("{:.1},{:.1}", left(at, bars.len()) + middle, y_of(bar.line.unwrap_or(0), top))
    };
    let points: Vec<String> = bars.iter().enumerate().map(point).collect();
    points.join(" ")
}

fn stack(at: usize, all: usize, bar: &ChartBar, series: &[(&str, &str)], top: u64) -> Markup {
    let width = (step(all) * 0.76).max(1.0);
    let mut below = 0;
    let mut pieces = Vec::new();
    for (value, (class, _)) in bar.values.iter().zip(series).filter(|(value, _)| **value > 0) {
        pieces.push((class, y_of(below, top), y_of(below + value, top)));
        below += value;
    }
    let (x, width) = (number(left(at, all)), number(width));
    html! {
        @for (class, low, high) in pieces {
            rect class=(class) x=(x) y=(number(high)) width=(width) height=(number(low - high)) {}
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred bars")]
fn step(all: usize) -> f64 {
    (WIDTH - LEFT - 8.0) / all.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred bars")]
fn left(at: usize, all: usize) -> f64 {
    LEFT + 4.0 + at as f64 * step(all)
}

#[expect(clippy::cast_precision_loss, reason = "a pixel needs no more than an f64 holds")]
fn y_of(value: u64, top: u64) -> f64 {
    HEIGHT - (HEIGHT - TOP) * value as f64 / top.max(1) as f64
}

/// The next round even number.
fn nice(most: u64) -> u64 {
    let mut size = 1;
    loop {
        for of in [2, 4, 6, 10] {
            if size * of >= most {
                return size * of;
            }
        }
        size *= 10;
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

/// A sparkline without axes.
pub(crate) fn spark(values: &[u64]) -> Markup {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let all = values.len().saturating_sub(1).max(1);
    #[expect(clippy::cast_precision_loss, reason = "a few dozen points of 20 pixels")]
    let points = values.iter().enumerate().map(|(at, value)| {
        format!("{:.0},{:.1}", at as f64 * 84.0 / all as f64, 19.0 - 17.0 * *value as f64 / most as f64)
    });
    let points: Vec<String> = points.collect();
    html! {
        svg width="84" height="20" viewBox="0 0 84 20" aria-hidden="true" {
            polyline class="spark" points=(points.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_ends_at_a_number_that_reads_well() {
        assert_eq!([0, 2, 3, 7, 61, 1_204].map(nice), [2, 2, 4, 10, 100, 2_000]);
    }

    #[test]
    fn a_chart_has_its_table_and_no_inline_style() {
        let series = [("s-good", "recovered"), ("s-dead", "dead")];
        let bar = ChartBar { name: "10:00".into(), values: vec![3, 1], line: Some(9) };
        let shown = bars("Failures", &series, Some("failed"), &[bar]);
        let html = shown.into_string();
        assert!(html.contains("<td class=\"num\">3</td><td class=\"num\">1</td><td class=\"num\">9</td>"), "{html}");
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(!html.contains("style="));
    }
}
