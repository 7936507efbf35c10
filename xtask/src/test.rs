//! `cargo xtask test`: installs what the suites need, runs them, passes their output on, and ends with a table and the sum.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use private_postgres::{ADMIN_URL, Server};

use crate::needs;
use crate::suites::{self, Scope, Suite};
use crate::tally::{Binary, Tally};

pub(crate) fn run(scope: &Scope<'_>) -> Result<ExitCode> {
    let (chosen, left_out): (Vec<&Suite>, Vec<&Suite>) =
        suites::ALL.iter().partition(|suite| suite.quick || !scope.quick);
    needs::provide(chosen.iter().flat_map(|suite| suite.needs))?;
    // One for all suites; it goes when this does.
    let postgres = Server::start().map_err(Error::msg).context("a PostgreSQL for the suites")?;
    let mut tally = Tally::default();
    for suite in chosen {
        run_suite(suite, scope, postgres.url(), &mut tally).with_context(|| format!("suite {}", suite.name))?;
    }
    if scope.quick {
        let names: Vec<&str> = left_out.iter().map(|suite| suite.name).collect();
        println!("\nquick: only a part of each suite ran, and nothing of {}", names.join(", "));
    }
    print!("{}", render(&tally));
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_suite(suite: &Suite, scope: &Scope<'_>, postgres: &str, tally: &mut Tally) -> Result<()> {
    println!("suite {}", suite.name);
    let mut command = (suite.command)(scope)?;
    command.env(ADMIN_URL, postgres);
    let status = stream(command, &mut io::stdout(), |line| tally.line(line))?;
    tally.end_of_suite(suite.name, status.success());
    Ok(())
}

fn render(tally: &Tally) -> String {
    let mut out = String::new();
    table(&mut out, tally);
    names(&mut out, "ran for over a minute", tally, |binary| &binary.slow);
    names(&mut out, "failed", tally, |binary| &binary.failures);
    // Scripts read this line: nothing else may stand on it or after it.
    put(&mut out, format_args!("\n{} passed, {} failed", tally.passed(), tally.failed()));
    out
}

fn table(out: &mut String, tally: &Tally) {
    let mut ran: Vec<&Binary> = tally.binaries.iter().filter(|binary| !binary.ran_nothing()).collect();
    if ran.is_empty() {
        return put(out, format_args!("\nno test ran"));
    }
    ran.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    put(
        out,
        format_args!("\n{:>7} {:>7} {:>7} {:>9}  test binary, slowest first", "passed", "failed", "ignored", "took"),
    );
    for Binary { name, passed, failed, ignored, took, .. } in ran {
        put(out, format_args!("{passed:>7} {failed:>7} {ignored:>7} {took:>9}  {name}"));
    }
}

fn seconds(binary: &Binary) -> f64 {
    binary.took.trim_end_matches('s').parse().unwrap_or(0.0)
}

fn names(out: &mut String, title: &str, tally: &Tally, of: impl Fn(&Binary) -> &[String]) {
    if tally.binaries.iter().all(|binary| of(binary).is_empty()) {
        return;
    }
    put(out, format_args!("\n{title}:"));
    for binary in &tally.binaries {
        for test in of(binary) {
            put(out, format_args!("  {test}  ({})", binary.name));
        }
    }
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a string has no way to fail.
    let _ = writeln!(out, "{line}");
}

/// How long the output may stay silent, with the command over, before we stop reading it.
const LINGER: Duration = Duration::from_millis(500);

fn stream(command: Command, shown: &mut impl Write, on_line: impl FnMut(&str)) -> Result<ExitStatus> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (child, output) = start(command).with_context(|| program.clone())?;
    let (sender, lines) = mpsc::channel();
    // The thread is not joined: a process that a test left behind may hold its pipe open for ever.
    thread::Builder::new().name("test output".into()).spawn(move || send_lines(output, &sender))?;
    follow(child, &lines, shown, on_line).context(program)
}

/// Both outputs go into one pipe, so that lines come in the order in which they were printed.
fn start(mut command: Command) -> io::Result<(Child, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    // The command keeps our ends of the pipe, and it ends here: the child's are then the only ones.
    let child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    Ok((child, reader))
}

fn send_lines(output: PipeReader, sender: &Sender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    // A pipe that can't be read any more has ended as far as we can know.
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if sender.send(std::mem::take(&mut line)).is_err() {
            break;
        }
    }
}

fn follow(
    mut child: Child,
    lines: &Receiver<Vec<u8>>,
    shown: &mut impl Write,
    mut on_line: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    loop {
        match lines.recv_timeout(LINGER) {
            Ok(line) => {
                shown.write_all(&line)?;
                shown.flush()?;
                on_line(String::from_utf8_lossy(&line).trim_end());
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    writeln!(shown, "warning: a process that a test started still runs")?;
                    return Ok(status);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str, success: bool) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.end_of_suite("workspace", success);
        tally
    }

    #[test]
    fn slowest_comes_first_failures_are_named_and_the_sum_closes() {
        let tally = tally(
            "     Running unittests src/lib.rs (target/debug/deps/core-01)
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s
     Running unittests src/main.rs (target/debug/deps/empty-01)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/api.rs (target/debug/deps/api-01)
test kills has been running for over 60 seconds
failures:
    reports
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 70.10s",
            false,
        );
        assert_eq!(
            render(&tally),
            "
 passed  failed ignored      took  test binary, slowest first
      3       1       0    70.10s  api, tests/api.rs
     12       0       1     0.02s  core, src/lib.rs

ran for over a minute:
  kills  (api, tests/api.rs)

failed:
  reports  (api, tests/api.rs)

15 passed, 1 failed
"
        );
    }

    #[test]
    fn a_run_without_tests_says_so() {
        assert_eq!(render(&Tally::default()), "\nno test ran\n\n0 passed, 0 failed\n");
    }

    fn run_script(script: &str) -> (bool, Vec<String>, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (mut lines, mut shown) = (Vec::new(), Vec::new());
        let status = stream(command, &mut shown, |line| lines.push(line.to_owned())).unwrap();
        (status.success(), lines, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn both_outputs_come_as_one_in_the_order_printed() {
        let (good, lines, shown) = run_script("echo one; echo two >&2; echo three; printf four");
        assert!(good);
        assert_eq!(lines, ["one", "two", "three", "four"]);
        assert_eq!(shown, "one\ntwo\nthree\nfour");
    }

    #[test]
    fn a_command_that_fails_is_seen_to_fail() {
        assert_eq!(run_script("echo no; exit 3"), (false, vec!["no".to_owned()], "no\n".to_owned()));
    }

    #[test]
    fn a_process_left_behind_does_not_hold_us_up() {
        let (good, lines, shown) = run_script("sleep 20 & echo $!");
        assert!(good);
        assert!(shown.ends_with("\nwarning: a process that a test started still runs\n"), "{shown}");
        let killed = Command::new("sh").args(["-c", &format!("kill {}", lines[0])]).status().unwrap();
        assert!(killed.success(), "it still runs when we have gone on");
    }
}
