//! The COPY that has the connection: libpq leaves pipeline mode for it, so that it runs alone.

use crate::model::copy::line_of_context;
use crate::model::error::FdwError;
use crate::pq::{Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::queue::{remote_error, Role};
use crate::remote::statement::{add_context, CopyIn};

/// How much data libpq is given at a time. It copies that to its own buffer, and sends it at once if it can.
const PIECE: usize = 64 << 10;

type Sent<T> = std::result::Result<T, Vec<u8>>;

enum Phase {
    /// The command has been sent.
    Starting,
    /// The shard wants data; so much has been handed over.
    Sending(usize),
    /// All data has been sent, or there was an error.
    Ending,
}

/// What a COPY has come to.
pub enum Step {
    /// Nothing can be done before something comes, or the socket takes more.
    Wait,
    /// Something has changed.
    Progress,
    /// The connection is in pipeline mode again.
    Done,
}

/// A COPY under way.
pub struct Running {
    copy: CopyIn,
    role: Role,
    phase: Phase,
    /// Ask the shard to forget the data.
    stopped: bool,
    pub result: Option<PgResult>,
    pub error: Option<FdwError>,
    /// Times that the shard has answered.
    pub answers: u64,
}

impl Running {
    /// Begins; every answer of the pipeline must have been read.
    pub fn start(connection: &mut Connection, copy: CopyIn, role: Role) -> Sent<Running> {
        let text = copy.sql.to_c_string()?;
        connection
            .exit_pipeline()
            .and_then(|()| connection.send_query(&text))
            .map_err(|error| error.message)?;
        Ok(Running {
            copy,
            role,
            phase: Phase::Starting,
            stopped: false,
            result: None,
            error: None,
            answers: 0,
        })
    }

    /// Bytes that are held until libpq has got the last of them.
    pub fn held_bytes(&self) -> usize {
        self.copy.data.len()
    }

    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Sends no more data than has been handed over, and lets the COPY fail.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Does what can be done without waiting. `unsent`: libpq has bytes that the socket did not take.
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        server: &[u8],
        unsent: &mut bool,
    ) -> Sent<Step> {
        match self.phase {
            Phase::Starting => match connection.next_result() {
                Answer::Pending => Ok(Step::Wait),
                Answer::Result(result) => {
                    self.answers += 1;
                    if result.status() == ResultStatus::CopyIn {
                        self.phase = Phase::Sending(0);
                    } else {
                        self.note(server, result);
                        self.phase = Phase::Ending;
                    }
                    Ok(Step::Progress)
                }
                Answer::End => self.end(connection),
            },
            Phase::Sending(offset) => self.send(connection, offset, unsent),
            Phase::Ending => match connection.next_result() {
                Answer::Pending => Ok(Step::Wait),
                Answer::Result(result) => {
                    self.answers += 1;
                    self.note(server, result);
                    Ok(Step::Progress)
                }
                Answer::End => self.end(connection),
            },
        }
    }

    fn send(
        &mut self,
        connection: &mut Connection,
        mut offset: usize,
        unsent: &mut bool,
    ) -> Sent<Step> {
        let data = &self.copy.data;
        while offset < data.len() && !self.stopped {
            if *unsent {
                return Ok(Step::Wait);
            }
            let piece = &data[offset..data.len().min(offset + PIECE)];
            if !connection.put_copy_data(piece).map_err(message)? {
                *unsent = true;
                return Ok(Step::Wait);
            }
            offset += piece.len();
            self.phase = Phase::Sending(offset);
            *unsent = connection.flush().map_err(message)? == Flush::Pending;
        }
        let failure = self.stopped.then_some(c"the statement was canceled");
        if !connection.put_copy_end(failure).map_err(message)? {
            *unsent = true;
            return Ok(Step::Wait);
        }
        *unsent = connection.flush().map_err(message)? == Flush::Pending;
        self.phase = Phase::Ending;
        self.copy.data = Vec::new();
        Ok(Step::Progress)
    }

    fn note(&mut self, server: &[u8], result: PgResult) {
        if result.status().is_success() {
            self.result = Some(result);
            return;
        }
        let diag = result.diag();
        let mut subject = self.copy.subject.clone();
        // Lines of a chunk are rows of the statement.
        let context = diag.context.as_deref().unwrap_or_default();
        if let (Some((first, last)), Some(line)) =
            (subject.rows, line_of_context(context, &self.copy.table))
        {
            let row = first + line.saturating_sub(1);
            if (first..=last).contains(&row) {
                subject.rows = Some((row, row));
            }
        }
        let error = remote_error(server, diag);
        let error = add_context(error, server, &self.copy.sql, &subject);
        self.error.get_or_insert(error);
    }

    fn end(&mut self, connection: &mut Connection) -> Sent<Step> {
        connection.enter_pipeline().map_err(message)?;
        Ok(Step::Done)
    }
}

fn message(error: crate::pq::PqError) -> Vec<u8> {
    error.message
}
