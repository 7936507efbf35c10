//! Inputs: examples in `corpus/`, one per file or per line, past failures in `regressions/`, and mutations of them.

use std::fs;
use std::path::Path;

use crate::{Chance, INPUT_MAX_BYTES, Target, folder};

pub fn corpus_of(target: &Target) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for name in target.corpus {
        all.extend(files(&folder().join("corpus").join(name)));
    }
    all.extend(files(&folder().join("regressions").join(target.name)));
    all.retain(|input| input.len() <= INPUT_MAX_BYTES);
    if all.is_empty() {
        all.push(Vec::new());
    }
    all
}

/// A file, or a folder of them in the order of their names. A `.lines` file has an example on each line.
fn files(path: &Path) -> Vec<Vec<u8>> {
    let lines = path.with_extension("lines");
    if let Ok(text) = fs::read(&lines) {
        return text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    names.iter().filter_map(|name| fs::read(name).ok()).collect()
}

/// Edges of numbers, of text, of JSON.
const WORDS: [&[u8]; 44] = [
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"\\",
    b"\"",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    "\u{feff}".as_bytes(),
    "\u{202e}".as_bytes(),
    "é".as_bytes(),
    "漢字".as_bytes(),
    "👩‍👩‍👧".as_bytes(),
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"-0",
    b"1e999",
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9223372036854775807",
    b"4294967296",
    b"0.1e-400",
    b"NaN",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"/",
    b"~0",
    b"~1",
    b"%00",
    b"%ff",
    b"&",
];

pub fn changed(from: &[Vec<u8>], chance: &Chance, words: &[&str]) -> Vec<u8> {
    let mut input = from[chance.below(from.len())].clone();
    for _ in 0..1 + chance.below(6) {
        change(&mut input, from, chance, words);
        input.truncate(INPUT_MAX_BYTES);
    }
    input
}

fn change(input: &mut Vec<u8>, from: &[Vec<u8>], chance: &Chance, words: &[&str]) {
    let at = chance.below(input.len() + 1);
    let until = (at + 1 + chance.below(32)).min(input.len());
    match chance.below(11) {
        0 if at < input.len() => input[at] ^= 1 << chance.below(8),
        1 if at < input.len() => input[at] = u8::try_from(chance.below(256)).unwrap_or(0),
        2 if at < until => drop(input.drain(at..until)),
        3 if at < until => {
            let piece: Vec<u8> = input[at..until].to_vec();
            put(input, chance.below(input.len() + 1), &piece);
        }
        4 => put(input, at, WORDS[chance.below(WORDS.len())]),
        5..=6 if !words.is_empty() => put(input, at, words[chance.below(words.len())].as_bytes()),
        7 => {
            let other = &from[chance.below(from.len())];
            let (start, end) = (chance.below(other.len() + 1), chance.below(other.len() + 1));
            put(input, at, &other[start.min(end)..start.max(end)]);
        }
        8 => input.truncate(at),
        9 if at < until => {
            // Deep, or long.
            let piece: Vec<u8> = input[at..until.min(at + 8)].to_vec();
            let many: Vec<u8> = piece.iter().copied().cycle().take(piece.len() * (1 + chance.below(300))).collect();
            put(input, at, &many);
        }
        _ => number(input, chance),
    }
}

fn put(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// Another number in place of the first one after some place.
fn number(input: &mut Vec<u8>, chance: &Chance) {
    let from = chance.below(input.len() + 1);
    let Some(start) = input[from..].iter().position(u8::is_ascii_digit).map(|n| n + from) else { return };
    let end = input[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(input.len(), |n| n + start);
    let other =
        ["0", "1", "-1", "255", "256", "65536", "2147483648", "4294967295", "1e308", "18446744073709551615", "0.5"];
    input.splice(start..end, other[chance.below(other.len())].bytes());
}
