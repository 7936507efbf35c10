//! One word of a message: does it name the failing part, or does it differ from request to request?

use super::template::Mask;

/// What to do with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Keep,
    Mask(Mask),
    /// Keep the letters, mask the digits: `invoice_‹n›`.
    Digits,
}

/// Looks at the word alone.
pub(super) fn judge(word: &str) -> Judgement {
    let shape = WordShape::of(word);
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        // Nothing is named so; what it is called only matters to the reader.
        return Judgement::Mask(shape.of_digits(word.len()));
    }
    if shape.is_snake_case() {
        return if has_id_prefix(word) { Judgement::Mask(Mask::Id) } else { Judgement::Keep };
    }
    if shape.ats && is_email(word) {
        return Judgement::Mask(Mask::Email);
    }
    if is_path(word, &shape) {
        return Judgement::Mask(Mask::Path);
    }
    if is_host(word, &shape) {
        return Judgement::Mask(Mask::Host);
    }
    if is_model(word) {
        return Judgement::Mask(Mask::Model);
    }
    if shape.digits == 0 {
        let random = has_id_prefix(word) || is_random_letters(word);
        return if random { Judgement::Mask(Mask::Id) } else { Judgement::Keep };
    }
    if is_number(word) {
        return Judgement::Mask(Mask::Number);
    }
    if is_id(word, &shape) {
        return Judgement::Mask(Mask::Id);
    }
    Judgement::Digits
}

/// Counts that every test below needs, taken in one go.
struct WordShape {
    digits: usize,
    letters: usize,
    slashes: usize,
    dots: usize,
    ats: bool,
    colons: bool,
    underscored: bool,
    other: usize,
}

impl WordShape {
    fn of(word: &str) -> Self {
        let mut shape = Self {
            digits: 0,
            letters: 0,
            slashes: 0,
            dots: 0,
            ats: false,
            colons: false,
            underscored: false,
            other: 0,
        };
        for byte in word.bytes() {
            match byte {
                b'0'..=b'9' => shape.digits += 1,
                b'a'..=b'z' | b'A'..=b'Z' => shape.letters += 1,
                b'/' | b'\\' => shape.slashes += 1,
                b'.' => shape.dots += 1,
                b'@' => shape.ats = true,
                b':' => shape.colons = true,
                b'_' => shape.underscored = true,
                _ => shape.other += 1,
            }
        }
        shape
    }

    /// What begins with a digit: an address, an id, or a number with or without a unit.
    fn of_digits(&self, len: usize) -> Mask {
        const LONGEST_NUMBER: usize = 14;
        match (self.dots, self.letters) {
            (3, 0) => Mask::Host,
            (_, 3..) if len > LONGEST_NUMBER => Mask::Id,
            (_, _) => Mask::Number,
        }
    }

    /// Letters and underscores: a name, unless it has a prefix that only ids have.
    fn is_snake_case(&self) -> bool {
        const LONGEST_WORD: usize = 19;
        let plain =
            self.digits == 0 && self.slashes == 0 && self.dots == 0 && !self.ats && !self.colons && self.other == 0;
        plain && self.letters > 0 && (self.letters <= LONGEST_WORD || self.underscored)
    }
}

/// Digits with signs, points, colons, a unit: `-1`, `1,024`, `12:30:05`, `350ms`, `2.5GB`, `99%`, `2017-05-16`.
fn is_number(word: &str) -> bool {
    const LONGEST_UNIT: usize = 5;
    let body = word.trim_start_matches(['-', '+', '~', '$']);
    let digits_end =
        body.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b':' | b'-' | b'/')).count();
    let unit = body[digits_end..].trim_end_matches('%');
    digits_end > 0 && unit.len() <= LONGEST_UNIT && unit.bytes().all(|b| b.is_ascii_alphabetic()) && !is_hex_like(body)
}

fn is_hex_like(body: &str) -> bool {
    body.len() >= 6 && body.bytes().all(|b| b.is_ascii_hexdigit()) && body.bytes().any(|b| b.is_ascii_alphabetic())
}

/// UUIDs, hashes, `0x…`, and names with a random piece: `run_ac12f4fdaca0`, `agent-worker-255c71a86-hrnth`.
fn is_id(word: &str, shape: &WordShape) -> bool {
    if word.starts_with("0x") || word.starts_with("0X") || is_mac_address(word) {
        return true;
    }
    let pieces = word.split(['-', '_', '.', ':', '@', '/', '+', '%']);
    pieces.into_iter().any(is_random_piece) || (has_id_prefix(word) && shape.letters + shape.digits >= 8)
}

/// `00:11:43:e3:ba:c3`
fn is_mac_address(word: &str) -> bool {
    word.len() == 17
        && word.split([':', '-']).filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit())).count() == 6
}

/// Letters and digits that change places at least twice, or hexadecimal with both: nobody names a thing so.
fn is_random_piece(piece: &str) -> bool {
    const SHORTEST: usize = 6;
    if piece.len() < SHORTEST {
        return false;
    }
    let bytes = piece.as_bytes();
    let changes = bytes.windows(2).filter(|w| w[0].is_ascii_digit() != w[1].is_ascii_digit()).count();
    let hex = bytes.iter().all(u8::is_ascii_hexdigit);
    let long_number = piece.len() >= 12 && changes == 0 && bytes[0].is_ascii_digit();
    changes >= 2 || (hex && changes >= 1) || (changes == 1 && piece.len() >= 16) || long_number
}

/// Prefixes that services give to their ids.
fn has_id_prefix(word: &str) -> bool {
    const LONGEST_PREFIX: usize = 8;
    const SHORTEST_TAIL: usize = 8;
    let Some(cut) = word.bytes().take(LONGEST_PREFIX + 1).position(|b| matches!(b, b'_' | b'-')) else { return false };
    let (prefix, tail) = (&word[..cut], &word[cut + 1..]);
    tail.len() >= SHORTEST_TAIL
        && matches!(
            prefix,
            "req"
                | "run"
                | "call"
                | "msg"
                | "resp"
                | "chatcmpl"
                | "toolu"
                | "thread"
                | "asst"
                | "sess"
                | "session"
                | "batch"
                | "org"
                | "proj"
                | "sk"
                | "key"
                | "cus"
                | "ch"
                | "pi"
                | "evt"
                | "gen"
                | "task"
                | "job"
        )
        && tail.bytes().any(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// A long word without digits that changes case like no camel does.
fn is_random_letters(word: &str) -> bool {
    const SHORTEST: usize = 20;
    if word.len() < SHORTEST || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let single_humps = word.as_bytes().windows(3).filter(|w| {
        w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase() && w[2].is_ascii_uppercase()
            || w[0].is_ascii_uppercase() && w[1].is_ascii_lowercase() && w[2].is_ascii_uppercase()
    });
    single_humps.count() >= 3
}

fn is_email(word: &str) -> bool {
    let Some((name, host)) = word.split_once('@') else { return false };
    !name.is_empty() && host.contains('.') && !host.starts_with('.') && !host.contains(['/', '@'])
}

fn is_path(word: &str, shape: &WordShape) -> bool {
    if shape.slashes == 0 {
        return shape.dots > 0 && has_file_ending(word);
    }
    let rooted = word.starts_with('/') || word.starts_with("./") || word.starts_with("../") || word.starts_with("~/");
    let drive = word.as_bytes().get(1) == Some(&b':') && word.starts_with(|c: char| c.is_ascii_alphabetic());
    let unc = word.starts_with("\\\\");
    (rooted && word.len() > 1) || drive || unc || shape.slashes >= 2 || has_file_ending(word)
}

/// `state-22d09701.db` is a file; `requests.exceptions` is a module.
fn has_file_ending(word: &str) -> bool {
    const LONGEST: usize = 7;
    let bytes = word.as_bytes();
    let tail = &bytes[bytes.len().saturating_sub(LONGEST + 1)..];
    let Some(dot) = tail.iter().rposition(|b| *b == b'.').filter(|dot| bytes.len() - tail.len() + dot > 0) else {
        return false;
    };
    let mut ending = [0; LONGEST];
    let len = tail.len() - dot - 1;
    for (to, from) in ending.iter_mut().zip(&tail[dot + 1..]) {
        *to = from.to_ascii_lowercase();
    }
    matches!(
        &ending[..len.min(LONGEST)],
        b"py"
            | b"js"
            | b"ts"
            | b"tsx"
            | b"jsx"
            | b"mjs"
            | b"json"
            | b"jsonl"
            | b"yaml"
            | b"yml"
            | b"toml"
            | b"txt"
            | b"md"
            | b"csv"
            | b"log"
            | b"db"
            | b"sqlite"
            | b"pdf"
            | b"png"
            | b"jpg"
            | b"jpeg"
            | b"zip"
            | b"gz"
            | b"tar"
            | b"xml"
            | b"html"
            | b"sh"
            | b"conf"
            | b"cfg"
            | b"ini"
            | b"dll"
            | b"exe"
            | b"so"
            | b"parquet"
    )
}

/// Addresses (with or without a port) and names that end in a known domain.
fn is_host(word: &str, shape: &WordShape) -> bool {
    if shape.dots == 0 {
        return shape.colons && (is_host_port(word) || is_ipv6(word));
    }
    if shape.letters == 0 {
        return shape.dots == 3;
    }
    let name = word
        .rsplit_once(':')
        .filter(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(word, |(name, _)| name);
    let Some((before, top)) = name.rsplit_once('.') else { return false };
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_'));
    const TOPS: [&str; 20] = [
        "com",
        "net",
        "org",
        "edu",
        "gov",
        "io",
        "ai",
        "dev",
        "app",
        "cloud",
        "local",
        "internal",
        "localdomain",
        "svc",
        "arpa",
        "example",
        "test",
        "info",
        "lan",
        "corp",
    ];
    let country = top.len() == 2 && top.bytes().all(|b| b.is_ascii_lowercase()) && before.contains('.');
    plain && !before.is_empty() && (TOPS.contains(&top) || country)
}

/// `mesos-master-1:5050`, `localhost:8080`.
fn is_host_port(word: &str) -> bool {
    let Some((name, port)) = word.rsplit_once(':') else { return false };
    let is_port = (2..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    is_port
        && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_ipv6(word: &str) -> bool {
    word.bytes().filter(|b| *b == b':').count() >= 3
        && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
        && word.contains("::")
        || word.bytes().filter(|b| *b == b':').count() == 7 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
}

/// Names of model families, with whatever version follows.
fn is_model(word: &str) -> bool {
    const FAMILIES: [&str; 32] = [
        "gpt-",
        "chatgpt-",
        "claude-",
        "gemini-",
        "gemma-",
        "llama-",
        "llama3",
        "llama2",
        "meta-llama",
        "mistral-",
        "mixtral-",
        "ministral-",
        "codestral-",
        "magistral-",
        "grok-",
        "deepseek-",
        "qwen",
        "command-r",
        "command-a",
        "o1-",
        "o3-",
        "o4-",
        "phi-",
        "text-embedding-",
        "dall-e",
        "whisper-",
        "kimi-",
        "glm-",
        "minimax-",
        "nova-",
        "titan-",
        "anthropic.claude",
    ];
    const SINGLE: [&str; 5] = ["o1", "o3", "gpt-4", "o4-mini", "gpt-5"];
    let name = &word[word.bytes().rposition(|b| b == b'/').map_or(0, |slash| slash + 1)..];
    if name.len() < 2
        || !name.contains(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '.']) && !name.starts_with("qwen")
    {
        return false;
    }
    SINGLE.contains(&name)
        || FAMILIES
            .iter()
            .any(|f| name.len() > f.len() && name.as_bytes()[..f.len()].eq_ignore_ascii_case(f.as_bytes()))
}
