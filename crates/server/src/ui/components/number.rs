//! Numbers as people read them.

/// 59,105
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `1,204 runs`
pub(crate) fn of(n: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A part of a whole to a tenth, none of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share to a tenth needs no more than an f64 holds")]
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1} %", part as f64 * 100.0 / whole as f64))
}

pub(crate) fn bytes(n: usize) -> String {
    const UNITS: [(usize, &str); 2] = [(1024 * 1024, "MiB"), (1024, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| n >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", n / unit),
        None => format!("{} bytes", grouped(n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_agree_with_their_noun() {
        assert_eq!([grouped(7), grouped(1_204), grouped(1_000_000)], ["7", "1,204", "1,000,000"]);
        assert_eq!([of(1, "run"), of(0, "run"), of(1_204, "run")], ["1 run", "0 runs", "1,204 runs"]);
        assert_eq!((percent(1, 3), percent(0, 0)), (Some("33.3 %".into()), None));
        assert_eq!([bytes(2_047), bytes(4_096), bytes(16 << 20)], ["2,047 bytes", "4 KiB", "16 MiB"]);
    }
}
