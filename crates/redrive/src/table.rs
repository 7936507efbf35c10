//! Tables for people: one row a line, columns aligned, cut to the terminal's width, a word in colour where it helps.

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};

use crate::escape;
use crate::out::{Looks, Style};

pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Of each row: the column that is coloured, and how.
    styles: Vec<(usize, Style)>,
    right: Vec<usize>,
}

impl Table {
    pub(crate) fn new<const N: usize>(heads: [&'static str; N]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new(), styles: Vec::new(), right: Vec::new() }
    }

    /// Figures stand better at the right.
    pub(crate) fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.row_with(cells, 0, Style::Plain);
    }

    /// A row with one coloured cell. Columns before it must be plain ASCII, as ids and states are.
    pub(crate) fn row_with<const N: usize>(&mut self, cells: [String; N], column: usize, style: Style) {
        self.rows.push(cells.into_iter().map(|cell| escape::line(&cell).into_owned()).collect());
        self.styles.push((column, style));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn render(self, looks: Looks) -> String {
        let text = self.lay_out(looks);
        let mut lines = text.lines();
        let heads = lines.next().unwrap_or_default();
        let mut out = looks.paint(Style::Heading, heads.trim_end());
        out.push('\n');
        for ((line, row), (column, style)) in lines.zip(&self.rows).zip(&self.styles) {
            out.push_str(&self.paint(line.trim_end(), heads, row, *column, *style, looks));
            out.push('\n');
        }
        out
    }

    fn lay_out(&self, looks: Looks) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_truncation_indicator("…");
        match looks.columns {
            Some(columns) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        table.set_header(self.heads.iter().copied());
        for cells in &self.rows {
            let mut row = Row::from(cells.iter().map(String::as_str));
            row.max_height(1);
            table.add_row(row);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.right.contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.to_string()
    }

    fn paint(&self, line: &str, heads: &str, row: &[String], column: usize, style: Style, looks: Looks) -> String {
        let word = row.get(column).map(String::as_str).unwrap_or_default();
        let head = self.heads.get(column).copied().unwrap_or_default();
        let place = heads.find(head).filter(|at| line.get(*at..*at + word.len()) == Some(word));
        match place {
            Some(at) if style != Style::Plain && !word.is_empty() => {
                format!("{}{}{}", &line[..at], looks.paint(style, word), &line[at + word.len()..])
            }
            Some(_) | None => line.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(["RUN", "STATE", "N", "ERROR"]).right(&[2]);
        table.row_with(["task-1", "dead", "1", "Invalid key\nsecond line"].map(String::from), 1, Style::Bad);
        table.row_with(["dead", "scheduled", "200", "\x1b[31mred"].map(String::from), 1, Style::Waiting);
        table
    }

    #[test]
    fn into_a_pipe_it_is_aligned_uncut_and_without_colour() {
        insta::assert_snapshot!(sample().render(Looks::default()), @r"
        RUN     STATE        N  ERROR
        task-1  dead         1  Invalid key\nsecond line
        dead    scheduled  200  \u{1b}[31mred
        ");
    }

    #[test]
    fn on_a_terminal_each_row_stays_one_line_within_its_width() {
        let text = sample().render(Looks { columns: Some(40), ..Looks::default() });
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn colour_goes_to_the_cell_that_was_named_even_when_another_says_the_same() {
        let text = sample().render(Looks { colour: true, ..Looks::default() });
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("dead    \x1b[33mscheduled\x1b[0m"), "{last:?}");
        assert!(!last.contains("\x1b[31mred"), "{last:?}");
    }
}
