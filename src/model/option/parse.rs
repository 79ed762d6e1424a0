//! Values of options, from their text.

use super::settings::{self, SessionSetting};
use super::table::Kind;

/// Most bytes of a name (NAMEDATALEN - 1); longer ones are cut, as in SQL.
const NAME_BYTES: usize = 63;

/// A value that has been read.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i32),
    Size(usize),
    Cost(f64),
    Choice(&'static str),
    Text(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Settings(Vec<SessionSetting>),
}

/// Why a value is refused: a sentence, where there is more to say than what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    pub reason: Option<String>,
}

impl Kind {
    /// Reads a value.
    pub fn parse(&self, text: &[u8]) -> Result<Value, Refusal> {
        let value = match *self {
            Kind::Bool => boolean(text).map(Value::Bool),
            Kind::Int { min, max } => integer(text)
                .filter(|value| (f64::from(min)..=f64::from(max)).contains(value))
                // In range and without fraction: the conversion is exact.
                .map(|value| Value::Int(value as i32)),
            Kind::Size { min, max } => size(text)
                .filter(|value| (min as f64..=max as f64).contains(value))
                .map(|value| Value::Size(value as usize)),
            Kind::Cost => number(text)
                .filter(|value| value.is_finite() && *value >= 0.0)
                .map(Value::Cost),
            Kind::Choice(words) => words
                .iter()
                .find(|word| word.as_bytes() == text)
                .map(|word| Value::Choice(word)),
            Kind::Name => (!text.is_empty()).then(|| Value::Text(text.to_vec())),
            Kind::NameList => identifiers(text).map(Value::Names),
            Kind::SessionSettings => {
                return settings::parse(text)
                    .map(Value::Settings)
                    .map_err(|reason| Refusal {
                        reason: Some(reason),
                    })
            }
            Kind::Libpq => Some(Value::Text(text.to_vec())),
        };
        value.ok_or_else(Refusal::default)
    }
}

/// What defGetBoolean takes, as word or as integer.
fn boolean(text: &[u8]) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    if is("true") || is("on") || is("1") {
        Some(true)
    } else if is("false") || is("off") || is("0") {
        Some(false)
    } else {
        None
    }
}

/// What isspace() of the C locale takes for white space.
pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

/// `text` without white space at both ends.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        if !is_space(*first) {
            break;
        }
        text = rest;
    }
    while let [rest @ .., last] = text {
        if !is_space(*last) {
            break;
        }
        text = rest;
    }
    text
}

/// A number at the start of `text` and what follows it. Integers may be hexadecimal or octal, as parse_int of guc.c
/// takes them by strtol().
fn leading_number(text: &[u8]) -> Option<(f64, &[u8])> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (value, rest) = match digits {
        [b'0', b'x' | b'X', hex @ ..] if hex.first().is_some_and(u8::is_ascii_hexdigit) => {
            in_radix(hex, 16)
        }
        _ => {
            let end = decimal_end(digits)?;
            let (number, rest) = digits.split_at(end);
            match number {
                [b'0', octal @ ..]
                    if !octal.is_empty()
                        && octal.iter().all(|byte| (b'0'..=b'7').contains(byte)) =>
                {
                    (in_radix(octal, 8).0, rest)
                }
                _ => (std::str::from_utf8(number).ok()?.parse().ok()?, rest),
            }
        }
    };
    Some((if negative { -value } else { value }, rest))
}

fn in_radix(digits: &[u8], radix: u32) -> (f64, &[u8]) {
    let mut value = 0.0;
    for (position, byte) in digits.iter().enumerate() {
        match char::from(*byte).to_digit(radix) {
            Some(digit) => value = value * f64::from(radix) + f64::from(digit),
            None => return (value, &digits[position..]),
        }
    }
    (value, &[])
}

/// Where a decimal number ends: digits, a fraction, an exponent.
fn decimal_end(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        text[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let whole = digits(0);
    let mut end = whole;
    let mut fraction = 0;
    if text.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = text
            .get(end + 1 + sign..)
            .map_or(0, |_| digits(end + 1 + sign));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some(end)
}

/// A whole number; a fraction is rounded, as parse_int of guc.c does.
fn integer(text: &[u8]) -> Option<f64> {
    match leading_number(trim(text))? {
        (value, []) => Some(value.round_ties_even()),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+"));
    match decimal_end(unsigned.unwrap_or(text))? {
        end if end == unsigned.unwrap_or(text).len() => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A number of bytes with the units of memory settings, which are case-sensitive. As convert_to_base_unit of guc.c
/// does, a fraction is rounded to the next smaller unit.
fn size(text: &[u8]) -> Option<f64> {
    let (value, rest) = leading_number(trim(text))?;
    let (factor, smaller) = match trim(rest) {
        b"" | b"B" => (1.0, 1.0),
        b"kB" => (1024.0, 1.0),
        b"MB" => (1_048_576.0, 1024.0),
        b"GB" => (1_073_741_824.0, 1_048_576.0),
        b"TB" => (1_099_511_627_776.0, 1_073_741_824.0),
        _ => return None,
    };
    Some((value * factor / smaller).round_ties_even() * smaller)
}

/// Names separated by commas, as SplitIdentifierString of varlena.c reads them: lower case unless in double quotes,
/// inner quotes doubled, cut at 63 bytes. None on a syntax error.
fn identifiers(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = trim(text);
    let mut names = Vec::new();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let (mut name, after) = match rest {
            [b'"', quoted @ ..] => quoted_part(quoted)?,
            _ => {
                let end = rest
                    .iter()
                    .position(|byte| *byte == b',' || is_space(*byte))
                    .unwrap_or(rest.len());
                (rest[..end].to_ascii_lowercase(), &rest[end..])
            }
        };
        if name.is_empty() && !rest.starts_with(b"\"") {
            return None;
        }
        if name.len() > NAME_BYTES {
            let mut end = NAME_BYTES;
            while end > 0 && (name[end] & 0xC0) == 0x80 {
                end -= 1;
            }
            name.truncate(end);
        }
        names.push(name);
        match trim(after) {
            [] => return Some(names),
            [b',', more @ ..] => rest = trim(more),
            _ => return None,
        }
    }
}

/// The text up to the closing double quote with doubled ones made single, and what follows. None without closing quote.
pub(super) fn quoted_part(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    let mut rest = text;
    loop {
        match rest {
            [b'"', b'"', more @ ..] => {
                content.push(b'"');
                rest = more;
            }
            [b'"', more @ ..] => return Some((content, more)),
            [byte, more @ ..] => {
                content.push(*byte);
                rest = more;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Option<i32> {
        let kind = Kind::Int {
            min: 1,
            max: 1_000_000,
        };
        match kind.parse(text.as_bytes()) {
            Ok(Value::Int(value)) => Some(value),
            _ => None,
        }
    }

    fn bytes(text: &str) -> Option<usize> {
        let kind = Kind::Size {
            min: 1 << 10,
            max: 256 << 20,
        };
        match kind.parse(text.as_bytes()) {
            Ok(Value::Size(value)) => Some(value),
            _ => None,
        }
    }

    fn cost(text: &str) -> Option<f64> {
        match Kind::Cost.parse(text.as_bytes()) {
            Ok(Value::Cost(value)) => Some(value),
            _ => None,
        }
    }

    fn names(text: &str) -> Option<Vec<String>> {
        let names = identifiers(text.as_bytes())?;
        Some(
            names
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
        )
    }

    #[test]
    fn booleans() {
        for text in ["true", "on", "TRUE", "On", "1"] {
            assert_eq!(boolean(text.as_bytes()), Some(true), "{text}");
        }
        for text in ["false", "off", "FALSE", "0"] {
            assert_eq!(boolean(text.as_bytes()), Some(false), "{text}");
        }
        for text in ["", "t", "yes", "no", "2", "on ", "tru"] {
            assert_eq!(boolean(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn integers_as_settings_take_them() {
        assert_eq!(int("1"), Some(1));
        assert_eq!(int(" 1000 "), Some(1000));
        assert_eq!(int("+7"), Some(7));
        assert_eq!(int("1000000"), Some(1_000_000));
        assert_eq!(int("0x10"), Some(16));
        assert_eq!(int("0xG"), None);
        assert_eq!(int("010"), Some(8));
        assert_eq!(int("1e3"), Some(1000));
        assert_eq!(int("1.5"), Some(2));
        assert_eq!(int("2.5"), Some(2));
        for text in [
            "",
            " ",
            "-",
            "0",
            "-1",
            "1000001",
            "1k",
            "1 0",
            "ten",
            "0x",
            "1e",
            "99999999999999999999",
            "nan",
            "inf",
            ".",
            "1,000",
        ] {
            assert_eq!(int(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_with_units() {
        assert_eq!(bytes("1024"), Some(1024));
        assert_eq!(bytes("2048B"), Some(2048));
        assert_eq!(bytes("1kB"), Some(1024));
        assert_eq!(bytes(" 1 MB "), Some(1 << 20));
        assert_eq!(bytes("1.5MB"), Some(1536 << 10));
        assert_eq!(bytes("0.1GB"), Some(102 << 20));
        assert_eq!(bytes("256MB"), Some(256 << 20));
        assert_eq!(bytes("0.25GB"), Some(256 << 20));
        for text in [
            "1023", "0.9kB", "257MB", "1GB", "1mb", "1KB", "1MBB", "MB", "1 M B", "-1MB", "1e400MB",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn costs_are_finite_and_not_negative() {
        assert_eq!(cost("0"), Some(0.0));
        assert_eq!(cost(" 100.5 "), Some(100.5));
        assert_eq!(cost("1e2"), Some(100.0));
        assert_eq!(cost(".5"), Some(0.5));
        for text in [
            "", "-1", "-0.1", "inf", "NaN", "1e999", "1x", "1 2", "0x10", "--1", "+-1",
        ] {
            assert_eq!(cost(text), None, "{text}");
        }
    }

    #[test]
    fn choices_are_exact() {
        let kind = Kind::Choice(&["repeatable_read", "match"]);
        assert_eq!(kind.parse(b"match"), Ok(Value::Choice("match")));
        assert!(kind.parse(b"Match").is_err());
        assert!(kind.parse(b"").is_err());
    }

    #[test]
    fn lists_of_identifiers() {
        let list = |items: &[&str]| Some(items.iter().map(|item| item.to_string()).collect());
        assert_eq!(names(""), list(&[]));
        assert_eq!(names("  "), list(&[]));
        assert_eq!(names("Cube, seg ,\tltree"), list(&["cube", "seg", "ltree"]));
        assert_eq!(names("\"uuid-ossp\""), list(&["uuid-ossp"]));
        assert_eq!(names("\"A\"\"b, c\" , d"), list(&["A\"b, c", "d"]));
        assert_eq!(names("a-b"), list(&["a-b"]));
        assert_eq!(names(&"x".repeat(70)), list(&[&"x".repeat(63)]));
        assert_eq!(
            names(&format!("{}é", "x".repeat(62))),
            list(&[&"x".repeat(62)])
        );
        for text in [",", "a,", ",a", "a,,b", "a b", "\"a", "\"a\"b"] {
            assert_eq!(names(text), None, "{text}");
        }
    }
}
