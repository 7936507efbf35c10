//! Standard output: text, JSON, tables and colour. A closed pipe is no error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};
use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};
use redrive_core::wire::StepStatus;

use crate::escape;

/// What the output supports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TerminalSupport {
    /// Output goes to a terminal: control characters must be escaped.
    pub(crate) terminal: bool,
    pub(crate) colour: bool,
    /// How wide a line may be; none for a file or a pipe.
    pub(crate) columns: Option<u16>,
}

impl TerminalSupport {
    fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns =
            rustix::termios::tcgetwinsize(&stdout).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
        Self { terminal: true, colour: !is_set("NO_COLOR") && !dumb, columns }
    }
}

/// Text styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Heading,
    Faint,
    Good,
    Bad,
    Waiting,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "\x1b[1m",
            Self::Faint => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Waiting => "\x1b[33m",
        }
    }
}

pub(crate) struct Printer {
    to: Box<dyn Write>,
    looks: TerminalSupport,
}

impl Printer {
    pub(crate) fn stdout() -> Self {
        Self { to: Box::new(BufWriter::new(io::stdout().lock())), looks: TerminalSupport::of_stdout() }
    }

    #[cfg(test)]
    pub(crate) fn to(to: impl Write + 'static, looks: TerminalSupport) -> Self {
        Self { to: Box::new(to), looks }
    }

    /// Untrusted `text` must be escaped already.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// The API's JSON unchanged; on a terminal with control characters escaped.
    pub(crate) fn json(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end();
        let text = if self.looks.terminal { escape::json(text) } else { text.into() };
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    pub(crate) fn table(&mut self, table: TextTable) -> io::Result<()> {
        self.to.write_all(table.render(self.looks).as_bytes())
    }

    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        self.looks.paint(style, text)
    }

    /// The width of the terminal; none for a file or a pipe.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.looks.columns.map(usize::from)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl TerminalSupport {
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.colour && style != Style::Plain { format!("{}{text}\x1b[0m", style.code()) } else { text.into() }
    }
}

/// Whether an error only means that the reader of our output is gone (`| head`).
pub(crate) fn reader_is_gone(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

pub(crate) struct TextTable {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Of each row: the column that is coloured, and how.
    styles: Vec<(usize, Style)>,
    right: Vec<usize>,
}

impl TextTable {
    pub(crate) fn new<const N: usize>(heads: [&'static str; N]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new(), styles: Vec::new(), right: Vec::new() }
    }

    /// Right-aligns columns of figures.
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

    pub(crate) fn render(self, looks: TerminalSupport) -> String {
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

    fn lay_out(&self, looks: TerminalSupport) -> String {
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

    fn paint(
        &self,
        line: &str,
        heads: &str,
        row: &[String],
        column: usize,
        style: Style,
        looks: TerminalSupport,
    ) -> String {
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

pub(crate) fn style_of(state: StateName) -> Style {
    match state {
        StateName::Dead => Style::Bad,
        StateName::Scheduled | StateName::Running | StateName::Review => Style::Waiting,
        StateName::Succeeded | StateName::Recovered | StateName::Resolved => Style::Good,
        StateName::Discarded | StateName::Merged => Style::Faint,
    }
}

pub(crate) fn step_style(status: StepStatus) -> Style {
    match status {
        StepStatus::Committed | StepStatus::Reconciled => Style::Good,
        StepStatus::Started => Style::Waiting,
        StepStatus::Failed | StepStatus::Unknown => Style::Bad,
    }
}

/// A dash for none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// How far `at` is from `now`: `5 min ago`, `in 30 s`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (distance_ms, ahead) = if at > now { (at.since(now), true) } else { (now.since(at), false) };
    if distance_ms < SECOND_MS {
        return "now".into();
    }
    let distance = duration(distance_ms);
    if ahead { format!("in {distance}") } else { format!("{distance} ago") }
}

/// In the largest unit that gives at least two of it, rounded down.
pub(crate) fn duration(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")];
    let fitting = units.into_iter().find(|(unit_ms, _)| ms >= 2 * unit_ms);
    match fitting {
        Some((unit_ms, unit)) => format!("{} {unit}", ms / unit_ms),
        None if ms >= SECOND_MS => "1 s".into(),
        None => format!("{ms} ms"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What was written, to look at while a [`Printer`] holds the other end.
    #[derive(Clone, Default)]
    pub(crate) struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Shared {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(crate) fn buffer() -> (Shared, Printer) {
        let shared = Shared::default();
        (shared.clone(), Printer::to(shared, TerminalSupport::default()))
    }

    #[test]
    fn json_is_verbatim_in_a_pipe_and_escaped_on_terminals() {
        let sent = "{\"a\":\"\u{9b}31m \u{202e}x \u{e0041} é\"}";
        let shown = |terminal| {
            let shared = Shared::default();
            Printer::to(shared.clone(), TerminalSupport { terminal, ..TerminalSupport::default() }).json(sent).unwrap();
            shared.text()
        };
        assert_eq!(shown(false), format!("{sent}\n"));
        assert_eq!(shown(true), "{\"a\":\"\\u009b31m \\u202ex \\udb40\\udc41 é\"}\n");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let gone = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(reader_is_gone(&gone));
        assert!(!reader_is_gone(&anyhow::anyhow!("refused")));
    }

    fn sample() -> TextTable {
        let mut table = TextTable::new(["RUN", "STATE", "N", "ERROR"]).right(&[2]);
        table.row_with(["task-1", "dead", "1", "Invalid key\nsecond line"].map(String::from), 1, Style::Bad);
        table.row_with(["dead", "scheduled", "200", "\x1b[31mred"].map(String::from), 1, Style::Waiting);
        table
    }

    #[test]
    fn into_a_pipe_it_is_aligned_uncut_and_without_colour() {
        insta::assert_snapshot!(sample().render(TerminalSupport::default()), @r"
    RUN     STATE        N  ERROR
    task-1  dead         1  Invalid key\nsecond line
    dead    scheduled  200  \u{1b}[31mred
    ");
    }

    #[test]
    fn table_rows_fit_the_terminal_width() {
        let text = sample().render(TerminalSupport { columns: Some(40), ..TerminalSupport::default() });
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn only_the_named_cell_is_coloured() {
        let text = sample().render(TerminalSupport { colour: true, ..TerminalSupport::default() });
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("dead    \x1b[33mscheduled\x1b[0m"), "{last:?}");
        assert!(!last.contains("\x1b[31mred"), "{last:?}");
    }

    #[test]
    fn relative_times_use_the_largest_fitting_unit() {
        let now = Timestamp::from_millis(1_000_000_000_000);
        let said = [0, 999, 1_500, 119_000, 120_000, 7_200_000, 172_800_000].map(|ms| relative(now.minus_ms(ms), now));
        assert_eq!(said, ["now", "now", "1 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago"]);
        assert_eq!(relative(now.plus_ms(30_000), now), "in 30 s");
    }
}
