//! The COPY that has the connection: libpq leaves pipeline mode for it, so that it runs alone.
//!
//! It stays open as long as rows of the same buffer may follow, until something else wants the connection, or somebody
//! wants its answer.

use crate::model::copy::line_of_context;
use crate::model::error::{Diag, FdwError};
use crate::model::sql::Sql;
use crate::pq::{Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::queue::{error_of, Failure, Role};
use crate::remote::statement::{add_context, CopyIn, Subject};
use crate::remote::{pending, spare};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How much data libpq is given at a time. It copies that to its own buffer, and sends it at once if it can.
const PIECE: usize = 64 << 10;
/// An open COPY is ended when it has got so much: while it is open, libpq may have read an error without telling.
const MOST_DATA: usize = 32 << 20;
/// And when it has been open for so long: it is one statement for the shard's statement_timeout.
const MOST_TIME: Duration = Duration::from_secs(1);

type Sent<T> = std::result::Result<T, Vec<u8>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The command has been sent.
    Starting,
    /// The shard takes data.
    Sending,
    /// All data has been sent, or there was an error.
    Ending,
}

/// What a COPY has come to.
pub enum Step {
    /// Nothing can be done before something comes, the socket takes more, or there is more data.
    Wait,
    /// Something has changed.
    Progress,
    /// The connection is in pipeline mode again.
    Done,
}

/// A COPY under way.
pub struct Running {
    /// Its first rows have been moved to `data`; the rows it is about grow.
    copy: CopyIn,
    role: Role,
    /// The level that its error would spoil.
    pub level: i32,
    phase: Phase,
    /// Data to send, with the number of bytes of the first piece that have been handed over.
    data: VecDeque<Vec<u8>>,
    offset: usize,
    /// Bytes in `data`, and all that have been in it.
    held: usize,
    total: usize,
    started: Instant,
    /// No rows will follow, and that has been added to the data.
    closing: bool,
    has_trailer: bool,
    /// Ask the shard to forget the data.
    stopped: bool,
    pub result: Option<PgResult>,
    error: Option<FdwError>,
    /// The shard has ended the session, with this.
    pub farewell: Option<Box<Diag>>,
    /// Times that the shard has answered.
    pub answers: u64,
}

impl Running {
    /// Begins; every answer of the pipeline must have been read.
    pub fn start(
        connection: &mut Connection,
        mut copy: CopyIn,
        role: Role,
        level: i32,
    ) -> Sent<Running> {
        let text = copy.sql.to_c_string()?;
        connection
            .exit_pipeline()
            .and_then(|()| connection.send_query(&text))
            .map_err(message)?;
        let rows = std::mem::take(&mut copy.rows);
        let closing = !copy.stays_open;
        let mut running = Running {
            copy,
            role,
            level,
            phase: Phase::Starting,
            data: VecDeque::new(),
            offset: 0,
            held: 0,
            total: 0,
            started: Instant::now(),
            closing,
            has_trailer: false,
            stopped: false,
            result: None,
            error: None,
            farewell: None,
            answers: 0,
        };
        running.add(running.copy.format.header().to_vec());
        running.add(rows);
        Ok(running)
    }

    fn add(&mut self, data: Vec<u8>) {
        self.held += data.len();
        self.total += data.len();
        self.data.push_back(data);
    }

    /// Can rows of this owner go with it?
    pub fn accepts(&self, owner: &Role) -> bool {
        let same = match (&self.role, owner) {
            (Role::Batch(this), Role::Batch(other)) => pending::is_same(this, other),
            _ => false,
        };
        same && !self.is_ending() && self.phase != Phase::Ending && !self.is_long()
    }

    /// Adds rows, which follow directly on those before.
    pub fn extend(&mut self, copy: CopyIn) {
        if let (Some(all), Some(more)) = (&mut self.copy.subject.rows, copy.subject.rows) {
            all.1 = more.1;
        }
        self.add(copy.rows);
    }

    /// No rows will follow. Returns whether they could have.
    pub fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closing, true)
    }

    /// Sends no more data than has been handed over, and lets the COPY fail.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.data.clear();
        self.held = 0;
    }

    fn is_long(&self) -> bool {
        self.total >= MOST_DATA || self.started.elapsed() >= MOST_TIME
    }

    fn is_ending(&self) -> bool {
        self.closing || self.stopped
    }

    /// Bytes that are held until libpq has got them.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Its error, once.
    pub fn take_failure(&mut self) -> Option<Failure> {
        let level = self.level;
        self.error.take().map(|error| Failure { level, error })
    }

    /// Text and subject.
    pub fn what(&self) -> (&Sql, &Subject) {
        (&self.copy.sql, &self.copy.subject)
    }

    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Does the shard take data? Then libpq reads only what it must, and shows no errors.
    pub fn is_sending(&self) -> bool {
        self.phase == Phase::Sending
    }

    /// Does what can be done without waiting. `unsent`: libpq has bytes that the socket did not take.
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        server: &[u8],
        unsent: &mut bool,
    ) -> Sent<Step> {
        if self.phase == Phase::Sending {
            return self.send(connection, unsent);
        }
        match connection.next_result() {
            Answer::Pending => Ok(Step::Wait),
            Answer::Result(result) => {
                self.answers += 1;
                let starts = result.status() == ResultStatus::CopyIn;
                if self.phase == Phase::Starting && starts {
                    self.phase = Phase::Sending;
                } else {
                    self.note(connection, server, result)?;
                    self.phase = Phase::Ending;
                    self.forget_data();
                }
                Ok(Step::Progress)
            }
            Answer::End => {
                connection.enter_pipeline().map_err(message)?;
                Ok(Step::Done)
            }
        }
    }

    fn send(&mut self, connection: &mut Connection, unsent: &mut bool) -> Sent<Step> {
        // What the shard says meanwhile is a notice or an error, which libpq tells only after the end.
        if !self.is_ending() && (self.is_long() || connection.has_input()) {
            self.close();
        }
        if self.closing && !self.stopped && !self.has_trailer {
            self.has_trailer = true;
            self.add(self.copy.format.trailer().to_vec());
        }
        while let Some(data) = self.data.front() {
            if *unsent {
                return Ok(Step::Wait);
            }
            let end = data.len().min(self.offset + PIECE);
            if !connection
                .put_copy_data(&data[self.offset..end])
                .map_err(message)?
            {
                // libpq makes room as long as there is memory.
                return Err(b"out of memory".to_vec());
            }
            if end == data.len() {
                self.held -= data.len();
                self.offset = 0;
                if let Some(sent) = self.data.pop_front() {
                    spare::put(sent);
                }
            } else {
                self.offset = end;
            }
            *unsent = connection.flush().map_err(message)? == Flush::Pending;
        }
        if !self.is_ending() {
            return Ok(Step::Wait);
        }
        let failure = self.stopped.then_some(c"the statement was canceled");
        if !connection.put_copy_end(failure).map_err(message)? {
            return Err(b"out of memory".to_vec());
        }
        *unsent = connection.flush().map_err(message)? == Flush::Pending;
        self.phase = Phase::Ending;
        Ok(Step::Progress)
    }

    fn forget_data(&mut self) {
        self.data.clear();
        self.held = 0;
    }

    fn note(&mut self, connection: &Connection, server: &[u8], result: PgResult) -> Sent<()> {
        if result.status().is_success() {
            self.result = Some(result);
            return Ok(());
        }
        let error = match error_of(server, &result, connection) {
            Ok(error) => error,
            Err(end) => return Err(end.note(&mut self.farewell)),
        };
        let diag = result.diag();
        let mut subject = self.copy.subject.clone();
        // Lines of the COPY are rows of the statement.
        let context = diag.context.as_deref().unwrap_or_default();
        if let (Some((first, last)), Some(line)) =
            (subject.rows, line_of_context(context, &self.copy.table))
        {
            let row = first + line.saturating_sub(1);
            if (first..=last).contains(&row) {
                subject.rows = Some((row, row));
            }
        }
        let error = add_context(error, server, &self.copy.sql, &subject);
        self.error.get_or_insert(error);
        Ok(())
    }
}

fn message(error: crate::pq::PqError) -> Vec<u8> {
    error.message
}
