//! How the rows of one buffer travel, and when it is full.
//!
//! A stream begins with multi-row INSERT. Once it has filled a batch, the shard is asked whether COPY means the same, and
//! if so, COPY takes over, in chunks that grow: on a shard a row costs 0.9 µs with arrays of 100 to 1,000, and with COPY
//! 1.3 µs in chunks of 1,000 but 0.5 µs in chunks of 10,000 (measured on one machine; the proportions are what matters).

use crate::model::option::{Transport, WriteOptions};
use crate::pg::guc;
use crate::remote::copyable::{CopyQuestion, Verdict};
use crate::remote::stats::FlushCause;
use std::cell::Cell;
use std::rc::Rc;

/// The largest chunk is so many times `batch_bytes`: rows on their way should keep a shard busy while others wait for
/// the connection.
const CHUNK_BATCHES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Insert,
    /// The shard has been asked about COPY.
    Asked,
    Copy,
}

/// The choice of transport for one buffer.
pub struct Stream {
    options: WriteOptions,
    /// False: rows can go by INSERT only, whatever the option.
    can_ask: Cell<bool>,
    question: Rc<CopyQuestion>,
    state: Cell<State>,
    /// Bytes at which the next chunk of COPY is full.
    chunk: Cell<usize>,
}

impl Stream {
    /// `position`: how many buffers the session has besides. Their chunks differ in size, so that they are not full all at
    /// the same moment.
    pub fn new(
        options: WriteOptions,
        can_ask: bool,
        question: Rc<CopyQuestion>,
        position: usize,
    ) -> Stream {
        let smallest = options.batch_bytes / 16 * (4 + position % 4);
        let stream = Stream {
            options,
            can_ask: Cell::new(can_ask && options.transport != Transport::Insert),
            question,
            state: Cell::new(State::Insert),
            chunk: Cell::new(smallest),
        };
        // An earlier statement of the transaction may have asked.
        stream.look();
        stream
    }

    /// Types of the remote columns, if COPY is in use.
    pub fn copy_types(&self) -> Option<Rc<[u32]>> {
        match (self.state.get(), self.question.verdict()) {
            (State::Copy, Some(Verdict::Yes { types, .. })) => Some(types),
            _ => None,
        }
    }

    /// May a COPY stay open for rows that follow?
    pub fn may_stay_open(&self) -> bool {
        matches!(
            self.question.verdict(),
            Some(Verdict::Yes { may_stay_open, .. }) if may_stay_open
        )
    }

    /// Rows cannot be brought into a form for COPY: they go on by INSERT.
    pub fn give_up_copy(&self) {
        self.can_ask.set(false);
        self.state.set(State::Insert);
    }

    /// The question whose answer is not there yet, if rows are being kept for it.
    pub fn unanswered(&self) -> Option<&Rc<CopyQuestion>> {
        (self.state.get() == State::Asked).then_some(&self.question)
    }

    pub fn question(&self) -> &Rc<CopyQuestion> {
        &self.question
    }

    /// Follows what is known by now of the shard's answer.
    fn look(&self) {
        let state = match self.question.verdict() {
            _ if !self.can_ask.get() => State::Insert,
            Some(Verdict::Yes { .. }) => State::Copy,
            Some(Verdict::No(_)) => State::Insert,
            None if self.question.is_asked() => State::Asked,
            None => State::Insert,
        };
        self.state.set(state);
    }

    /// Does a buffer of this size have to be sent? `ready`: are its rows in a form for COPY?
    #[inline]
    pub fn is_full(&self, rows: usize, bytes: usize, ready: bool) -> Option<FlushCause> {
        let is_big = bytes >= self.options.batch_bytes;
        if rows < self.options.batch_size && !is_big {
            return None;
        }
        let by_size = if rows >= self.options.batch_size {
            FlushCause::Full
        } else {
            FlushCause::Bytes
        };
        // The answer may have come, or the savepoint in which it was asked may have been undone.
        if self.state.get() == State::Asked || !self.question.is_asked() {
            self.look();
        }
        match self.state.get() {
            State::Insert => Some(by_size),
            State::Asked => is_big.then_some(by_size),
            State::Copy if !ready => Some(by_size),
            State::Copy => {
                let is_long = rows >= guc::copy_rows() || is_big;
                (bytes >= self.chunk.get() && is_long).then_some(FlushCause::Bytes)
            }
        }
    }

    /// Will rows of this size, in a form for COPY, go by COPY? If not, by INSERT.
    pub fn copies(&self, rows: usize, bytes: usize) -> bool {
        if self.options.transport == Transport::Copy && self.can_ask.get() {
            return true;
        }
        // The savepoint in which the shard was asked may have been undone.
        self.look();
        self.state.get() == State::Copy
            && (rows >= guc::copy_rows() || bytes >= self.options.batch_bytes)
    }

    /// A chunk of COPY has been sent: the next one may be twice as large.
    pub fn has_copied(&self) {
        let largest = self.options.batch_bytes * CHUNK_BATCHES;
        let next = self.chunk.get() * 2;
        if next <= largest {
            self.chunk.set(next);
        }
    }

    /// A batch has gone by INSERT. Should the shard be asked about COPY now?
    pub fn wants_to_ask(&self, cause: FlushCause) -> bool {
        self.look();
        let is_long = matches!(cause, FlushCause::Full | FlushCause::Bytes);
        self.can_ask.get() && is_long && !self.question.is_asked()
    }
}
