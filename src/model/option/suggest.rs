//! The valid name that is closest to a wrong one.

/// Most edits between a wrong name and the one suggested for it.
const MAX_DISTANCE: usize = 4;

/// The candidate with the smallest edit distance to `wrong`, the first of several; none if more than four edits, or
/// edits to more than half of `wrong`, would be needed (the rule of PostgreSQL's own suggestions,
/// updateClosestMatch of varlena.c).
pub fn closest<'a>(wrong: &[u8], candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(wrong, candidate.as_bytes()), candidate))
        .filter(|(edits, _)| *edits <= MAX_DISTANCE && *edits <= wrong.len() / 2)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, source) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, target) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(source != target);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"abc", b""), 3);
        assert_eq!(distance(b"same", b"same"), 0);
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let names = ["batch_size", "fetch_size", "batch_bytes", "host"];
        assert_eq!(closest(b"bach_size", names), Some("batch_size"));
        assert_eq!(closest(b"fetchsize", names), Some("fetch_size"));
        assert_eq!(closest(b"hots", names), Some("host"));
        assert_eq!(closest(b"ho", names), None);
        assert_eq!(closest(b"nothing_like_it", names), None);
        assert_eq!(closest(b"", names), None);
    }

    #[test]
    fn the_first_of_equals_wins() {
        assert_eq!(closest(b"abcx", ["abcd", "abce"]), Some("abcd"));
    }
}
