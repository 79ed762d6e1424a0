//! numeric: decimal numbers in digits of base 10,000.

use super::{append_words, malformed, split};
use crate::model::error::Result;

/// First bits of the header in memory. Without both of them it has a second word, the weight.
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
/// Parts of a short header.
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE: u16 = 0x1F80;
const SHORT_SCALE_SHIFT: u32 = 7;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT: u16 = 0x003F;
/// Parts of a long header's first word.
const LONG_SIGN: u16 = 0xC000;
const LONG_SCALE: u16 = 0x3FFF;

/// Signs on the wire; those of special values are also the first bits of their headers.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const SIGN_OF_SPECIAL: u16 = 0xF000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// Largest digit.
const MAX_DIGIT: u16 = 9999;

struct Numeric<'a> {
    sign: u16,
    /// Power of 10,000 that the first digit counts.
    weight: i16,
    /// Decimal digits shown after the point.
    scale: u16,
    /// Two bytes a digit, without zeros at either end.
    digits: &'a [u8],
}

impl Numeric<'_> {
    #[inline]
    fn read(contents: &[u8]) -> Result<Numeric<'_>> {
        let (header, rest) = split::<2>(contents)?;
        let header = u16::from_ne_bytes(header);
        let numeric = if header & SHORT == 0 {
            let (weight, digits) = split::<2>(rest)?;
            Numeric {
                sign: header & LONG_SIGN,
                weight: i16::from_ne_bytes(weight),
                scale: header & LONG_SCALE,
                digits,
            }
        } else {
            let sign = if header & SPECIAL == SPECIAL {
                header & SIGN_OF_SPECIAL
            } else if header & SHORT_NEGATIVE != 0 {
                NEGATIVE
            } else {
                POSITIVE
            };
            let weight = header & SHORT_WEIGHT;
            let is_fraction = header & SHORT_WEIGHT_SIGN != 0;
            Numeric {
                sign,
                weight: weight as i16
                    | if is_fraction {
                        !(SHORT_WEIGHT as i16)
                    } else {
                        0
                    },
                scale: (header & SHORT_SCALE) >> SHORT_SCALE_SHIFT,
                digits: rest,
            }
        };
        if numeric.digits.len() % 2 != 0 {
            return Err(malformed());
        }
        Ok(numeric)
    }

    /// The digit at a place, counted from the first; 0 outside of those that are stored.
    #[inline]
    fn digit(&self, place: i32) -> Result<u16> {
        let stored = usize::try_from(place)
            .ok()
            .and_then(|place| self.digits.get(2 * place..2 * place + 2));
        match stored {
            Some(bytes) => {
                let digit = u16::from_ne_bytes([bytes[0], bytes[1]]);
                (digit <= MAX_DIGIT).then_some(digit).ok_or_else(malformed)
            }
            None => Ok(0),
        }
    }
}

/// Appends the wire form: number of digits, weight, sign, scale, digits.
pub fn append(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let numeric = Numeric::read(contents)?;
    let mut header = [0; 8];
    let fields = [
        (numeric.digits.len() / 2) as u16,
        numeric.weight as u16,
        numeric.sign,
        numeric.scale,
    ];
    for (field, target) in fields.iter().zip(header.chunks_exact_mut(2)) {
        target.copy_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(&header);
    append_words::<2>(numeric.digits, out);
    Ok(())
}

/// Appends the text form, as the output function of numeric makes it.
pub fn append_text(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let numeric = Numeric::read(contents)?;
    match numeric.sign {
        POSITIVE => {}
        NEGATIVE => out.push(b'-'),
        NAN => return append_word("NaN", out),
        INFINITY => return append_word("Infinity", out),
        MINUS_INFINITY => return append_word("-Infinity", out),
        _ => return Err(malformed()),
    }
    let weight = i32::from(numeric.weight);
    let first = decimals(if weight < 0 { 0 } else { numeric.digit(0)? });
    let zeros = first.iter().take(3).take_while(|digit| **digit == b'0');
    out.extend_from_slice(&first[zeros.count()..]);
    for place in 1..=weight {
        out.extend_from_slice(&decimals(numeric.digit(place)?));
    }
    if numeric.scale > 0 {
        out.push(b'.');
        let end = out.len() + usize::from(numeric.scale);
        let mut place = weight + 1;
        while out.len() < end {
            out.extend_from_slice(&decimals(numeric.digit(place)?));
            place += 1;
        }
        out.truncate(end);
    }
    Ok(())
}

fn append_word(word: &str, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(word.as_bytes());
    Ok(())
}

/// The four decimal digits of a digit.
#[inline]
fn decimals(digit: u16) -> [u8; 4] {
    [digit / 1000, digit / 100 % 10, digit / 10 % 10, digit % 10]
        .map(|decimal| b'0' + decimal as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn wire(contents: &[u16]) -> Vec<u16> {
        let mut out = Vec::new();
        append(&words(contents), &mut out).unwrap();
        out.chunks_exact(2)
            .map(|word| u16::from_be_bytes([word[0], word[1]]))
            .collect()
    }

    fn text(contents: &[u16]) -> String {
        let mut out = Vec::new();
        append_text(&words(contents), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A long header: negative, scale 20, weight -3.
    const LONG: [u16; 4] = [NEGATIVE | 20, -3_i16 as u16, 12, 3400];
    /// A short header: negative, scale 3, weight 1.
    const NEGATIVE_SHORT: u16 = SHORT | SHORT_NEGATIVE | 3 << SHORT_SCALE_SHIFT | 1;
    /// The same with weight -1.
    const FRACTION: u16 = SHORT | 6 << SHORT_SCALE_SHIFT | SHORT_WEIGHT_SIGN | SHORT_WEIGHT;

    #[test]
    fn both_headers_are_read() {
        assert_eq!(wire(&LONG), [2, -3_i16 as u16, NEGATIVE, 20, 12, 3400]);
        assert_eq!(text(&LONG), "-0.00000000001234000000");
        let short = [NEGATIVE_SHORT, 7, 89, 5000];
        assert_eq!(wire(&short), [3, 1, NEGATIVE, 3, 7, 89, 5000]);
        assert_eq!(text(&short), "-70089.500");
        assert_eq!(wire(&[FRACTION, 1]), [1, 0xFFFF, POSITIVE, 6, 1]);
        assert_eq!(text(&[FRACTION, 1]), "0.000100");
    }

    #[test]
    fn zeros_that_are_not_stored_are_shown() {
        assert_eq!(text(&[SHORT]), "0");
        assert_eq!(text(&[SHORT | 2 << SHORT_SCALE_SHIFT]), "0.00");
        assert_eq!(text(&[SHORT | 2, 10]), "1000000000");
        assert_eq!(text(&[2, 3, 1000]), "1000000000000000.00");
    }

    #[test]
    fn special_values_have_names() {
        assert_eq!(text(&[NAN]), "NaN");
        assert_eq!(text(&[INFINITY]), "Infinity");
        assert_eq!(text(&[MINUS_INFINITY]), "-Infinity");
        assert_eq!(wire(&[NAN]), [0, 0, NAN, 0]);
    }

    #[test]
    fn malformed_values_are_refused() {
        for bad in [&[][..], &[0], &[0, 0, 0], &words(&[SHORT])[..1]] {
            append(bad, &mut Vec::new()).unwrap_err();
            append_text(bad, &mut Vec::new()).unwrap_err();
        }
        for bad in [vec![SHORT, 10_000], vec![0xE000], vec![0, 0, 0xFFFF]] {
            append_text(&words(&bad), &mut Vec::new()).unwrap_err();
        }
        let mut odd = words(&[SHORT, 1]);
        odd.push(0);
        append(&odd, &mut Vec::new()).unwrap_err();
    }
}
