//! The setting `lock_timeout`, here and on a shard, in milliseconds. 0: no limit.

/// Milliseconds of the units in which a server shows the setting. 0 is shown without one.
const UNITS: [(&str, i32); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// What a server shows, as `300ms` or `5s`.
pub fn parse(shown: &[u8]) -> Option<i32> {
    let shown = std::str::from_utf8(shown).ok()?;
    let digits = shown.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = shown.split_at(digits);
    let number: i32 = number.parse().ok()?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*milliseconds)
}

/// The limit for waits on a shard, whose own is `own`: the shorter one of both. A `local` 0 leaves it as it is.
pub fn wanted(local: i32, own: i32) -> i32 {
    match (local, own) {
        (0, own) => own,
        (local, 0) => local,
        (local, own) => local.min(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_show_is_read() {
        for (shown, milliseconds) in [
            ("0", 0),
            ("300ms", 300),
            ("5s", 5000),
            ("2min", 120_000),
            ("3h", 10_800_000),
            ("24d", 2_073_600_000),
        ] {
            assert_eq!(parse(shown.as_bytes()), Some(milliseconds), "{shown}");
        }
        for shown in ["", "ms", "5 s", "-1", "25d", "1y"] {
            assert_eq!(parse(shown.as_bytes()), None, "{shown}");
        }
    }

    #[test]
    fn the_shorter_limit_counts() {
        assert_eq!(wanted(0, 0), 0);
        assert_eq!(wanted(0, 500), 500);
        assert_eq!(wanted(300, 0), 300);
        assert_eq!(wanted(300, 500), 300);
        assert_eq!(wanted(700, 500), 500);
    }
}
