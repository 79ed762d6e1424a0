//! A client that speaks the simple query protocol: values as text, command tags and error fields as the server sent
//! them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// No statement of a test takes longer: a hang is a failure of that test, not of the whole run.
const ANSWER_LIMIT: Duration = Duration::from_secs(180);

/// The fields of an error or a notice, by the protocol's letters.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Fields(Vec<(char, String)>);

impl Fields {
    fn get(&self, code: char) -> &str {
        self.0
            .iter()
            .find(|(c, _)| *c == code)
            .map_or("", |(_, text)| text)
    }

    /// `ERROR`, `FATAL`, `WARNING`, `NOTICE`, …
    pub fn severity(&self) -> &str {
        self.get('V')
    }

    pub fn sqlstate(&self) -> &str {
        self.get('C')
    }

    pub fn message(&self) -> &str {
        self.get('M')
    }

    pub fn detail(&self) -> &str {
        self.get('D')
    }

    pub fn hint(&self) -> &str {
        self.get('H')
    }

    pub fn context(&self) -> &str {
        self.get('W')
    }

    pub fn schema(&self) -> &str {
        self.get('s')
    }

    pub fn table(&self) -> &str {
        self.get('t')
    }

    pub fn column(&self) -> &str {
        self.get('c')
    }

    pub fn constraint(&self) -> &str {
        self.get('n')
    }

    /// All fields as the server sent them, each behind its letter.
    pub fn all(&self) -> Vec<String> {
        let all = self.0.iter();
        all.map(|(code, text)| format!("{code}: {text}")).collect()
    }

    /// The cursor position in the statement, if the server gave one.
    pub fn position(&self) -> &str {
        self.get('P')
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {}: {}",
            self.severity(),
            self.sqlstate(),
            self.message()
        )?;
        for (name, code) in [("DETAIL", 'D'), ("HINT", 'H'), ("CONTEXT", 'W')] {
            if !self.get(code).is_empty() {
                write!(f, "\n{name}:  {}", self.get(code))?;
            }
        }
        Ok(())
    }
}

/// What one statement of a query string gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statement {
    pub columns: Vec<String>,
    /// Values in text form; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag, as `INSERT 0 5`; empty for an empty query.
    pub tag: String,
}

/// Everything a query string gave, up to ReadyForQuery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// The statements that completed.
    pub statements: Vec<Statement>,
    /// The error that ended the query string.
    pub error: Option<Fields>,
    /// Notices and warnings in order.
    pub notices: Vec<Fields>,
    /// What COPY TO STDOUT sent.
    pub copied: Vec<u8>,
    /// `I` idle, `T` in a transaction, `E` in a failed one; `-` if the connection is gone.
    pub status: char,
}

impl Reply {
    /// Fails unless all statements succeeded; returns the reply.
    #[track_caller]
    pub fn expect_ok(self) -> Reply {
        if let Some(error) = &self.error {
            panic!("unexpected error: {error:?}");
        }
        self
    }

    /// The error; fails if there was none.
    #[track_caller]
    pub fn expect_error(self) -> Fields {
        match self.error {
            Some(error) => error,
            None => panic!("an error was expected, but got: {:?}", self.statements),
        }
    }

    /// The command tag of the last statement; fails on an error.
    #[track_caller]
    pub fn tag(&self) -> &str {
        self.last().tag.as_str()
    }

    /// The rows of the last statement; fails on an error.
    #[track_caller]
    pub fn rows(&self) -> &[Vec<Option<String>>] {
        &self.last().rows
    }

    /// The rows of the last statement as psql -At prints them: `|` between values, NULL as the empty string.
    #[track_caller]
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Option<String>>| {
            let values: Vec<&str> = row.iter().map(|v| v.as_deref().unwrap_or("")).collect();
            values.join("|")
        };
        self.last().rows.iter().map(line).collect()
    }

    /// The only value of the last statement; NULL as the empty string.
    #[track_caller]
    pub fn value(&self) -> String {
        match self.last().rows.as_slice() {
            [row] if row.len() == 1 => row[0].clone().unwrap_or_default(),
            rows => panic!("one value was expected, but got: {rows:?}"),
        }
    }

    #[track_caller]
    fn last(&self) -> &Statement {
        if let Some(error) = &self.error {
            panic!("unexpected error: {error:?}");
        }
        self.statements.last().expect("no statement completed")
    }
}

/// A connection.
pub struct Simple {
    stream: TcpStream,
    port: u16,
    pid: u32,
    secret: Vec<u8>,
    limit: Duration,
}

impl Simple {
    /// Connects without a password.
    pub fn connect(port: u16, dbname: &str, user: &str) -> std::io::Result<Simple> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut simple = Simple {
            stream,
            port,
            pid: 0,
            secret: Vec::new(),
            limit: ANSWER_LIMIT,
        };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in [
            ("user", user),
            ("database", dbname),
            ("application_name", "test"),
            ("client_encoding", "UTF8"),
        ] {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        let mut packet = length(&body);
        packet.extend_from_slice(&body);
        simple.stream.write_all(&packet)?;
        let reply = simple.read_reply(&[])?;
        match reply.error {
            Some(error) => Err(std::io::Error::other(format!("{error:?}"))),
            None => Ok(simple),
        }
    }

    /// Gives up on an answer after this time; the default is three minutes.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The process id of the backend.
    pub fn pid(&self) -> i32 {
        self.pid.try_into().expect("process id")
    }

    /// Sends a query string and waits for its end. A lost connection is reported as the server's last error, with
    /// status `-`.
    #[track_caller]
    pub fn run(&mut self, query: &str) -> Reply {
        self.send(query);
        self.receive()
    }

    /// The single value of a query, as text.
    #[track_caller]
    pub fn value(&mut self, query: &str) -> String {
        self.run(query).value()
    }

    /// Runs COPY … FROM STDIN with the given data.
    #[track_caller]
    pub fn copy_in(&mut self, copy: &str, data: &[u8]) -> Reply {
        self.send(copy);
        match self.read_reply(data) {
            Ok(reply) => reply,
            Err(e) => panic!("no answer to {copy}: {e}"),
        }
    }

    /// Sends a query string without waiting.
    #[track_caller]
    pub fn send(&mut self, query: &str) {
        let mut body = query.as_bytes().to_vec();
        body.push(0);
        // A connection that is gone is found out by who reads the answer.
        let _ = self.write(b'Q', &body);
    }

    /// Waits for the answer to `send`.
    #[track_caller]
    pub fn receive(&mut self) -> Reply {
        match self.read_reply(&[]) {
            Ok(reply) => reply,
            Err(e) => panic!("no answer: {e}"),
        }
    }

    /// Whether any part of the answer to `send` has come within the given time.
    pub fn answers_within(&mut self, limit: Duration) -> bool {
        self.stream
            .set_read_timeout(Some(limit))
            .expect("set the read timeout");
        self.stream.peek(&mut [0]).is_ok()
    }

    /// After `send`: waits until `done`. False: the answer came first.
    pub fn waits_until(&mut self, done: impl Fn() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.answers_within(Duration::from_millis(5)) {
                return false;
            }
        }
    }

    /// Asks the server to cancel what this connection runs, as Ctrl-C in psql does.
    pub fn cancel(&self) {
        Canceller {
            port: self.port,
            pid: self.pid,
            secret: self.secret.clone(),
        }
        .cancel();
    }

    /// The same for use in another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            port: self.port,
            pid: self.pid,
            secret: self.secret.clone(),
        }
    }

    fn write(&mut self, kind: u8, body: &[u8]) -> std::io::Result<()> {
        let mut packet = vec![kind];
        packet.extend_from_slice(&length(body));
        packet.extend_from_slice(body);
        self.stream.write_all(&packet)
    }

    fn read_message(&mut self, end: Instant) -> std::io::Result<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.read_exact(&mut header, end)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        self.read_exact(&mut body, end)?;
        Ok((header[0], body))
    }

    fn read_exact(&mut self, into: &mut [u8], end: Instant) -> std::io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut into[done..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads up to ReadyForQuery. `copy_data` is sent when the server asks for it.
    fn read_reply(&mut self, copy_data: &[u8]) -> std::io::Result<Reply> {
        let end = Instant::now() + self.limit;
        let mut reply = Reply {
            status: '-',
            ..Reply::default()
        };
        let mut statement = Statement::default();
        loop {
            let (kind, body) = match self.read_message(end) {
                Ok(message) => message,
                Err(e) if e.kind() == ErrorKind::TimedOut => return Err(e),
                Err(e) => {
                    if reply.error.is_none() {
                        let lost = Fields(vec![
                            ('V', "LOST".to_string()),
                            ('M', format!("connection lost: {e}")),
                        ]);
                        reply.error = Some(lost);
                    }
                    return Ok(reply);
                }
            };
            match kind {
                b'R' if body != [0, 0, 0, 0] => {
                    return Err(std::io::Error::other(
                        "the server asks for a password or the like",
                    ))
                }
                b'K' => {
                    self.pid = u32::from_be_bytes([body[0], body[1], body[2], body[3]]);
                    self.secret = body[4..].to_vec();
                }
                b'T' => statement.columns = columns(&body),
                b'D' => statement.rows.push(values(&body)),
                b'd' => reply.copied.extend_from_slice(&body),
                b'G' => {
                    for piece in copy_data.chunks(65_536) {
                        if self.write(b'd', piece).is_err() {
                            break;
                        }
                    }
                    let _ = self.write(b'c', &[]);
                }
                b'C' | b'I' => {
                    if kind == b'C' {
                        statement.tag = cstring(&body);
                    }
                    reply.statements.push(std::mem::take(&mut statement));
                }
                b'E' => reply.error = Some(fields(&body)),
                b'N' => reply.notices.push(fields(&body)),
                b'Z' => {
                    reply.status = char::from(body[0]);
                    return Ok(reply);
                }
                _ => {}
            }
        }
    }
}

impl Drop for Simple {
    fn drop(&mut self) {
        let _ = self.write(b'X', &[]);
    }
}

/// Cancels what a connection runs, from anywhere.
#[derive(Clone)]
pub struct Canceller {
    port: u16,
    pid: u32,
    secret: Vec<u8>,
}

impl Canceller {
    /// Sends the cancel request and waits until the server has taken it.
    pub fn cancel(&self) {
        let mut body = 80_877_102_u32.to_be_bytes().to_vec();
        body.extend_from_slice(&self.pid.to_be_bytes());
        body.extend_from_slice(&self.secret);
        let mut packet = length(&body);
        packet.extend_from_slice(&body);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connect to cancel");
        stream.write_all(&packet).expect("send the cancel request");
        // The server closes without an answer.
        let _ = stream.read(&mut [0]);
    }
}

fn length(body: &[u8]) -> Vec<u8> {
    u32::try_from(body.len() + 4)
        .expect("message length")
        .to_be_bytes()
        .to_vec()
}

fn cstring(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn fields(body: &[u8]) -> Fields {
    let list = body
        .split(|byte| *byte == 0)
        .filter(|field| !field.is_empty())
        .map(|field| {
            let text = String::from_utf8_lossy(&field[1..]).into_owned();
            (char::from(field[0]), text)
        })
        .collect();
    Fields(list)
}

fn columns(body: &[u8]) -> Vec<String> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let mut rest = &body[2..];
    (0..count)
        .map(|_| {
            let name = cstring(rest);
            // name, its zero, and 18 bytes that describe the type
            let skip = rest.iter().position(|b| *b == 0).unwrap_or(0) + 19;
            rest = &rest[skip..];
            name
        })
        .collect()
}

fn values(body: &[u8]) -> Vec<Option<String>> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let mut rest = &body[2..];
    (0..count)
        .map(|_| {
            let length = i32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
            rest = &rest[4..];
            let length = usize::try_from(length).ok()?;
            let (value, after) = rest.split_at(length);
            rest = after;
            Some(String::from_utf8_lossy(value).into_owned())
        })
        .collect()
}
