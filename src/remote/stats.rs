//! Counters: what has been sent, per session and per foreign relation.

use std::cell::Cell;
use std::time::Duration;

/// Why a buffer was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushCause {
    /// `batch_size` rows.
    Full,
    /// `batch_bytes` bytes.
    Bytes,
    /// The end of the statement or of the (sub)transaction, or a trigger that core announces.
    End,
    /// Another use of the session.
    Barrier,
    /// A deeper savepoint.
    Savepoint,
    /// `shard_fdw.buffer_memory`.
    Memory,
    /// A row whose key may be that of one that waits, where rows update those with their key.
    Repeat,
}

impl FlushCause {
    pub const ALL: [FlushCause; 7] = [
        FlushCause::Full,
        FlushCause::Bytes,
        FlushCause::End,
        FlushCause::Barrier,
        FlushCause::Savepoint,
        FlushCause::Memory,
        FlushCause::Repeat,
    ];

    /// The word EXPLAIN and `shard_fdw_stats()` use.
    pub fn name(self) -> &'static str {
        match self {
            FlushCause::Full => "full",
            FlushCause::Bytes => "bytes",
            FlushCause::End => "end",
            FlushCause::Barrier => "barrier",
            FlushCause::Savepoint => "savepoint",
            FlushCause::Memory => "memory",
            FlushCause::Repeat => "repeat",
        }
    }
}

/// Counters of writes: of one session since it began, or of one relation within a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteStats {
    /// Statements that carried rows.
    pub batches: u64,
    /// Rows they carried.
    pub rows: u64,
    /// Bytes of their parameters and text.
    pub bytes: u64,
    /// Flushes, in the order of [`FlushCause::ALL`].
    pub flushes: [u64; 7],
}

impl WriteStats {
    pub fn count(&mut self, cause: FlushCause, rows: u64, bytes: u64) {
        self.batches += 1;
        self.rows += rows;
        self.bytes += bytes;
        self.flushes[cause as usize] += 1;
    }

    /// What has been added since `earlier`, a former value of the same counters.
    pub fn since(self, earlier: WriteStats) -> WriteStats {
        let mut flushes = self.flushes;
        for (count, before) in flushes.iter_mut().zip(earlier.flushes) {
            *count = count.saturating_sub(before);
        }
        WriteStats {
            batches: self.batches.saturating_sub(earlier.batches),
            rows: self.rows.saturating_sub(earlier.rows),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            flushes,
        }
    }

    /// Counts rows that are added to a statement under way.
    pub fn count_more(&mut self, rows: u64, bytes: u64) {
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Counts a statement that the shard did whole, with the rows that it changed there.
    pub fn count_whole(&mut self, rows: u64, bytes: u64) {
        self.batches += 1;
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Both together.
    pub fn and(mut self, other: WriteStats) -> WriteStats {
        self.batches += other.batches;
        self.rows += other.rows;
        self.bytes += other.bytes;
        for (sum, flushes) in self.flushes.iter_mut().zip(other.flushes) {
            *sum += flushes;
        }
        self
    }

    /// Counts a statement with one row that never waited in a buffer.
    pub fn count_single(&mut self, bytes: u64) {
        self.batches += 1;
        self.rows += 1;
        self.bytes += bytes;
    }
}

/// Exchanges of a session with its shard, and the time they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStats {
    /// Times that the shard answered after something had been sent to it.
    pub round_trips: u64,
    /// Time spent waiting for answers, or for room to send.
    pub waited: Duration,
}

impl WaitStats {
    /// What has been added since `earlier`, a former value of the same counters.
    pub fn since(self, earlier: WaitStats) -> WaitStats {
        WaitStats {
            round_trips: self.round_trips.saturating_sub(earlier.round_trips),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

/// All counters of a user mapping, from the first use of its session on. They outlive the connection, and the session
/// object that a changed server or mapping replaces.
#[derive(Debug, Default)]
pub struct Counters {
    writes: Cell<WriteStats>,
    waits: Cell<WaitStats>,
}

impl Counters {
    pub fn writes(&self) -> WriteStats {
        self.writes.get()
    }

    pub fn waits(&self) -> WaitStats {
        self.waits.get()
    }

    /// As [`WriteStats::count`].
    pub fn count(&self, cause: FlushCause, rows: u64, bytes: u64) {
        let mut writes = self.writes.get();
        writes.count(cause, rows, bytes);
        self.writes.set(writes);
    }

    /// As [`WriteStats::count_more`].
    pub fn count_more(&self, rows: u64, bytes: u64) {
        let mut writes = self.writes.get();
        writes.count_more(rows, bytes);
        self.writes.set(writes);
    }

    /// As [`WriteStats::count_whole`].
    pub fn count_whole(&self, rows: u64, bytes: u64) {
        let mut writes = self.writes.get();
        writes.count_whole(rows, bytes);
        self.writes.set(writes);
    }

    /// As [`WriteStats::count_single`].
    pub fn count_single(&self, bytes: u64) {
        let mut writes = self.writes.get();
        writes.count_single(bytes);
        self.writes.set(writes);
    }

    pub fn add_round_trips(&self, round_trips: u64) {
        let mut waits = self.waits.get();
        waits.round_trips += round_trips;
        self.waits.set(waits);
    }

    pub fn add_wait(&self, waited: Duration) {
        let mut waits = self.waits.get();
        waits.waited += waited;
        self.waits.set(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_once_under_its_cause() {
        let counters = Counters::default();
        counters.count(FlushCause::Bytes, 7, 100);
        counters.count_single(9);
        let writes = counters.writes();
        assert_eq!((writes.batches, writes.rows, writes.bytes), (2, 8, 109));
        assert_eq!(writes.flushes, [0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(FlushCause::ALL[1].name(), "bytes");
        let both = writes.and(writes);
        assert_eq!((both.batches, both.rows, both.bytes), (4, 16, 218));
        assert_eq!(both.flushes, [0, 2, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn waits_are_compared_with_an_earlier_value() {
        let counters = Counters::default();
        counters.add_round_trips(2);
        let earlier = counters.waits();
        counters.add_round_trips(3);
        counters.add_wait(Duration::from_millis(5));
        let since = counters.waits().since(earlier);
        assert_eq!(since.round_trips, 3);
        assert_eq!(since.waited, Duration::from_millis(5));
    }
}
