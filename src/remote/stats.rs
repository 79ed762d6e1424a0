//! Counters: what has been sent, per session and per foreign relation.

use std::time::Duration;

/// Why a buffer was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushCause {
    /// `batch_size` rows.
    Full,
    /// `batch_bytes` bytes.
    Bytes,
    /// The end of the statement, or a trigger that core announces.
    End,
    /// Another use of the session.
    Barrier,
    /// A deeper savepoint.
    Savepoint,
}

impl FlushCause {
    pub const ALL: [FlushCause; 5] = [
        FlushCause::Full,
        FlushCause::Bytes,
        FlushCause::End,
        FlushCause::Barrier,
        FlushCause::Savepoint,
    ];

    /// The word EXPLAIN and `shard_fdw_stats()` use.
    pub fn name(self) -> &'static str {
        match self {
            FlushCause::Full => "full",
            FlushCause::Bytes => "bytes",
            FlushCause::End => "end",
            FlushCause::Barrier => "barrier",
            FlushCause::Savepoint => "savepoint",
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
    pub flushes: [u64; 5],
}

impl WriteStats {
    pub fn count(&mut self, cause: FlushCause, rows: u64, bytes: u64) {
        self.batches += 1;
        self.rows += rows;
        self.bytes += bytes;
        self.flushes[cause as usize] += 1;
    }

    /// Counts a statement with one row that never waited in a buffer.
    pub fn count_single(&mut self, bytes: u64) {
        self.batches += 1;
        self.rows += 1;
        self.bytes += bytes;
    }
}

/// Waits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStats {
    /// Waits for an answer after something had been sent.
    pub round_trips: u64,
    pub waited: Duration,
}
