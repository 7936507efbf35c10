//! Where commands write: standard output, and what is known about it. A reader that has gone away is no error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use crate::escape;
use crate::table::Table;

/// What the other end can show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    /// Somebody may be looking: what a terminal would act on has to be written out.
    pub(crate) terminal: bool,
    pub(crate) colour: bool,
    /// How wide a line may be; none for a file or a pipe.
    pub(crate) columns: Option<u16>,
}

impl Looks {
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

/// The few styles there are.
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

pub(crate) struct Out {
    to: Box<dyn Write>,
    looks: Looks,
}

impl Out {
    pub(crate) fn stdout() -> Self {
        Self { to: Box::new(BufWriter::new(io::stdout().lock())), looks: Looks::of_stdout() }
    }

    #[cfg(test)]
    pub(crate) fn to(to: impl Write + 'static, looks: Looks) -> Self {
        Self { to: Box::new(to), looks }
    }

    /// `text` must be escaped already where it is a stranger's.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// The API's JSON as it came; on a terminal the same JSON without a character that a terminal acts on.
    pub(crate) fn json(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end();
        let text = if self.looks.terminal { escape::json(text) } else { text.into() };
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    pub(crate) fn table(&mut self, table: Table) -> io::Result<()> {
        self.to.write_all(table.render(self.looks).as_bytes())
    }

    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        self.looks.paint(style, text)
    }

    /// How wide a terminal is; none where nobody watches.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.looks.columns.map(usize::from)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Looks {
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

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What was written, to look at while an [`Out`] holds the other end.
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

    pub(crate) fn buffer() -> (Shared, Out) {
        let shared = Shared::default();
        (shared.clone(), Out::to(shared, Looks::default()))
    }

    #[test]
    fn json_is_left_alone_in_a_pipe_and_harmless_on_a_terminal() {
        let sent = "{\"a\":\"\u{9b}31m \u{202e}x \u{e0041} é\"}";
        let shown = |terminal| {
            let shared = Shared::default();
            Out::to(shared.clone(), Looks { terminal, ..Looks::default() }).json(sent).unwrap();
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
}
