//! Runs a command, shows what it prints as it prints it, and hands every line on.

use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long the output may stay silent, with the command over, before we stop reading it.
const LINGER: Duration = Duration::from_millis(500);

pub(super) fn run(command: Command, shown: &mut impl Write, on_line: impl FnMut(&str)) -> Result<ExitStatus> {
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

    fn run_script(script: &str) -> (bool, Vec<String>, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (mut lines, mut shown) = (Vec::new(), Vec::new());
        let status = run(command, &mut shown, |line| lines.push(line.to_owned())).unwrap();
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
