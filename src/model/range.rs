//! Ranges of sequence values: how many to draw at a time, and which are held.

use std::collections::VecDeque;
use std::time::Duration;

/// A refill that comes later than this after the one before starts over with a small range: whoever needs a value now
/// and then shall not hold many that are never used.
pub const PAUSE: Duration = Duration::from_secs(1);

/// Most values of one draw, whatever `shard_fdw.sequence_range` says: the shard gathers them in its memory.
pub const MOST_AT_ONCE: u32 = 10_000_000;

/// How many values the next draw shall bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// As many as the sequence's CACHE, which the shard knows, but not more than this.
    Cache {
        most: u32,
    },
    Values(u32),
}

/// How fast a sequence is used. Times are durations since some fixed moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Values that the last draw asked for, and when it was over.
    last: Option<(u32, Duration)>,
}

impl Pace {
    /// Size of a draw that begins at `now`, with `range` as the largest one allowed. A bulk load takes all of it at once.
    pub fn next(&self, now: Duration, range: u32, is_bulk: bool) -> Size {
        let most = range.clamp(1, MOST_AT_ONCE);
        match self.last {
            _ if is_bulk => Size::Values(most),
            Some((size, end)) if now.saturating_sub(end) <= PAUSE => {
                Size::Values(size.saturating_mul(2).min(most))
            }
            _ => Size::Cache { most },
        }
    }

    /// A draw that asked for `size` values is over.
    pub fn drawn(&mut self, size: u32, now: Duration) {
        self.last = Some((size.max(1), now));
    }
}

/// Values at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: i64,
    step: i64,
    count: u64,
}

impl Run {
    /// The value at a place from 0. The runs are made so that those within `count` do not overflow.
    fn at(&self, place: u64) -> i64 {
        self.first
            .wrapping_add(self.step.wrapping_mul(place as i64))
    }

    /// Does the value continue the run?
    fn extend(&mut self, value: i64) -> bool {
        if self.count == 1 {
            let Some(step) = value.checked_sub(self.first) else {
                return false;
            };
            self.step = step;
        } else if self.at(self.count - 1).checked_add(self.step) != Some(value) {
            return false;
        }
        self.count += 1;
        true
    }
}

/// Values in the order in which they were drawn, in little room.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    runs: VecDeque<Run>,
}

impl Values {
    /// Adds one.
    pub fn push(&mut self, value: i64) {
        if !self.runs.back_mut().is_some_and(|run| run.extend(value)) {
            self.runs.push_back(Run {
                first: value,
                step: 0,
                count: 1,
            });
        }
    }

    /// Adds `first`, `first + step`, …, `count` values in all. False, and nothing is added: that is beyond the type.
    pub fn push_run(&mut self, first: i64, step: i64, count: u64) -> bool {
        let last = i128::from(first) + i128::from(step) * (i128::from(count) - 1);
        if i64::try_from(last).is_err() {
            return false;
        }
        if count > 0 {
            self.runs.push_back(Run { first, step, count });
        }
        true
    }

    /// Adds the elements of an array of bigint in text form, as `{1,2,3}`. False: it is none.
    pub fn push_array(&mut self, text: &[u8]) -> bool {
        let Some(inner) = text
            .strip_prefix(b"{")
            .and_then(|text| text.strip_suffix(b"}"))
        else {
            return false;
        };
        if inner.is_empty() {
            return true;
        }
        inner.split(|&byte| byte == b',').all(|element| {
            let value = std::str::from_utf8(element).ok();
            value
                .and_then(|text| text.parse().ok())
                .is_some_and(|value| {
                    self.push(value);
                    true
                })
        })
    }

    /// Adds those of another at the end.
    pub fn append(&mut self, mut others: Values) {
        self.runs.append(&mut others.runs);
    }

    /// Takes the next one.
    #[inline]
    pub fn take(&mut self) -> Option<i64> {
        let run = self.runs.front_mut()?;
        let value = run.first;
        run.count -= 1;
        if run.count == 0 {
            self.runs.pop_front();
        } else {
            run.first = run.first.wrapping_add(run.step);
        }
        Some(value)
    }

    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The next value, and the last of all.
    pub fn ends(&self) -> Option<(i64, i64)> {
        let last = self.runs.back()?;
        Some((self.runs.front()?.first, last.at(last.count - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn sizes_double_while_refills_follow_fast() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(at(0), 1000, false), Size::Cache { most: 1000 });
        // The CACHE was 300.
        pace.drawn(300, at(5));
        assert_eq!(pace.next(at(1005), 1000, false), Size::Values(600));
        pace.drawn(600, at(1100));
        assert_eq!(pace.next(at(1200), 1000, false), Size::Values(1000));
        pace.drawn(1000, at(1300));
        assert_eq!(pace.next(at(1300), 1000, false), Size::Values(1000));
    }

    #[test]
    fn a_pause_goes_back_to_the_start() {
        let mut pace = Pace::default();
        pace.drawn(64, at(500));
        assert_eq!(pace.next(at(1500), 1000, false), Size::Values(128));
        assert_eq!(pace.next(at(1501), 1000, false), Size::Cache { most: 1000 });
        // The clock may not run backwards; if it does, that is no pause.
        assert_eq!(pace.next(at(400), 1000, false), Size::Values(128));
    }

    #[test]
    fn a_changed_range_counts_at_once() {
        let mut pace = Pace::default();
        pace.drawn(1000, at(0));
        assert_eq!(pace.next(at(1), 7, false), Size::Values(7));
        assert_eq!(pace.next(at(1), 1, false), Size::Values(1));
        pace.drawn(1, at(2));
        assert_eq!(pace.next(at(3), 10_000, false), Size::Values(2));
        assert_eq!(pace.next(at(5000), 1, false), Size::Cache { most: 1 });
    }

    #[test]
    fn a_bulk_load_takes_the_whole_range_at_once() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(at(0), 1000, true), Size::Values(1000));
        pace.drawn(1, at(0));
        assert_eq!(pace.next(at(9999), 500, true), Size::Values(500));
        let all = u32::MAX / 2;
        assert_eq!(pace.next(at(0), all, true), Size::Values(MOST_AT_ONCE));
    }

    #[test]
    fn sizes_do_not_overflow() {
        let mut pace = Pace::default();
        pace.drawn(u32::MAX, at(0));
        assert_eq!(
            pace.next(at(0), u32::MAX, false),
            Size::Values(MOST_AT_ONCE)
        );
        pace.drawn(0, at(0));
        assert_eq!(pace.next(at(0), 0, false), Size::Values(1));
    }

    fn all(mut values: Values) -> Vec<i64> {
        std::iter::from_fn(|| values.take()).collect()
    }

    #[test]
    fn values_come_out_as_they_went_in() {
        for given in [
            vec![],
            vec![5],
            vec![1, 2, 3, 4],
            vec![1, 2, 3, 10, 11, 12, 40],
            vec![-3, -5, -7, 9, 8],
            vec![7, 7, 7, 8],
            vec![i64::MAX - 1, i64::MAX, i64::MIN, i64::MIN + 1, 0, i64::MAX],
            vec![i64::MIN, i64::MAX, i64::MIN],
        ] {
            let mut values = Values::default();
            for value in &given {
                values.push(*value);
            }
            assert_eq!(values.len(), given.len() as u64);
            let ends = given.first().copied().zip(given.last().copied());
            assert_eq!(values.ends(), ends);
            assert_eq!(values.is_empty(), given.is_empty());
            assert_eq!(all(values), given);
        }
    }

    #[test]
    fn a_range_takes_the_room_of_one_run() {
        let mut values = Values::default();
        for value in (0..100_000).map(|place| 3 - 7 * place) {
            values.push(value);
        }
        assert_eq!(values.runs.len(), 1);
        assert!(values.push_run(i64::MAX - 4, 2, 3));
        assert_eq!(values.ends(), Some((3, i64::MAX)));
        assert_eq!(values.len(), 100_003);
        assert!(!values.push_run(i64::MAX - 4, 2, 4));
        assert!(!values.push_run(i64::MIN, -1, 2));
        assert!(values.push_run(1, 1, 0));
        assert_eq!(values.len(), 100_003);
        values.clear();
        assert_eq!(values.ends(), None);
    }

    #[test]
    fn arrays_are_read() {
        let mut values = Values::default();
        assert!(values.push_array(b"{-1,0,1,9223372036854775807}"));
        assert!(values.push_array(b"{}"));
        assert!(values.push_array(b"{-9223372036854775808}"));
        assert_eq!(all(values), [-1, 0, 1, i64::MAX, i64::MIN]);
        for bad in [
            &b""[..],
            b"{",
            b"1",
            b"{1,}",
            b"{NULL}",
            b"{9223372036854775808}",
            b"{1 }",
        ] {
            assert!(!Values::default().push_array(bad), "{bad:?}");
        }
    }
}
