//! A page as a list of scenes.

/// What happens next.
pub(crate) enum Scene {
    Stage(String),
    Command { line: String, prints: Vec<String> },
}

pub(crate) fn read(page: &str) -> Vec<Scene> {
    let mut scenes = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if let Some(stage) = line.strip_prefix("<!-- stage: ").and_then(|rest| rest.strip_suffix(" -->")) {
            scenes.push(Scene::Stage(stage.to_owned()));
        } else if line.starts_with("```") {
            in_block = line == "```sh";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            scenes.push(Scene::Command { line: command.to_owned(), prints: Vec::new() });
        } else if in_block && let Some(Scene::Command { prints, .. }) = scenes.last_mut() {
            prints.push(line.to_owned());
        }
    }
    scenes
}

/// The words of a command; quotes hold several together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words
}

/// Whether what was printed is what is written, `…` standing for anything: in a line for a part of it, alone for lines.
pub(crate) fn is_as_written(printed: &str, written: &[String]) -> bool {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    lines_fit(&printed, written)
}

fn lines_fit(printed: &[&str], written: &[String]) -> bool {
    match written.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => (0..=printed.len()).any(|at| lines_fit(&printed[at..], rest)),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, more)| fits(first, line) && lines_fit(more, rest))
        }
    }
}

fn fits(printed: &str, written: &str) -> bool {
    match written.split_once('…') {
        None => printed == written,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            places.into_iter().any(|at| fits(&rest[at..], after))
        }),
    }
}

#[test]
fn what_is_written_has_to_be_printed() {
    let written = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_as_written("a 17 b\nx\ny\nend\n", &written("a … b\n…\nend")));
    assert!(!is_as_written("a 17 c\n", &written("a … b")));
    assert!(!is_as_written("a\nb\n", &written("a")));
    assert_eq!(words(r#"create --reason "two words" x"#), ["create", "--reason", "two words", "x"]);
}
