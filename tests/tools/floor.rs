//! The floor under every way of writing: copies ready-made binary rows straight into the shards' tables.
//!
//!     floor PORT SCHEMA SESSIONS CHUNK_KB FILE…
//!
//! The files are what `COPY … TO … (FORMAT binary)` wrote; the rows of the n-th go into the table SCHEMA.rows_n, by
//! COPYs of about CHUNK_KB each. Every session serves its share of the tables, chunk after chunk in turn, in one
//! transaction and without waiting for answers in between. All messages are ready and all sessions open before the
//! clock starts. Prints a command tag with all rows and the time, as psql does.

use std::error::Error;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Signature, flags and length of the extension, as they begin every binary COPY.
const SIGNATURE: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The field count that ends one.
const END: [u8; 2] = [0xff; 2];
/// As much as libpq puts into one CopyData message under COPY from psql, or more.
const PIECE: usize = 65_536;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, schema, sessions, chunk, files @ ..] = arguments.as_slice() else {
        return Err("usage: floor PORT SCHEMA SESSIONS CHUNK_KB FILE…".into());
    };
    let (port, sessions, chunk) = (port.parse()?, sessions.parse()?, chunk.parse::<usize>()?);

    let mut rows = 0;
    let mut tables = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let bytes = std::fs::read(file)?;
        let copy = format!("COPY {schema}.rows_{number} FROM STDIN (FORMAT binary)");
        let mut messages = Vec::new();
        for part in chunks(&bytes, chunk * 1024)? {
            rows += part.rows;
            messages.push(copy_messages(&copy, part.tuples));
        }
        tables.push(messages);
    }

    let start = Arc::new(Barrier::new(sessions + 1));
    let mut threads = Vec::new();
    for session in 0..sessions {
        let mine: Vec<_> = tables
            .iter_mut()
            .skip(session)
            .step_by(sessions)
            .map(std::mem::take)
            .collect();
        let script = in_turn(mine);
        let mut server = Server::connect(port)?;
        let start = start.clone();
        threads.push(std::thread::spawn(move || -> Result<()> {
            start.wait();
            for messages in &script {
                server.stream.write_all(messages)?;
            }
            server.finish(script.len())
        }));
    }
    start.wait();
    let begin = Instant::now();
    for thread in threads {
        thread.join().map_err(|_| "a session panicked")??;
    }
    println!("COPY {rows}");
    println!("Time: {:.3} ms", begin.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}

struct Chunk<'a> {
    tuples: &'a [u8],
    rows: usize,
}

/// Cuts a binary COPY into runs of whole tuples of at least `size` bytes, the last one excepted.
fn chunks(copy: &[u8], size: usize) -> Result<Vec<Chunk<'_>>> {
    let body = copy
        .strip_prefix(SIGNATURE.as_slice())
        .ok_or("not a binary COPY")?;
    let mut found = Vec::new();
    let (mut start, mut at, mut rows) = (0, 0, 0);
    loop {
        let fields = take::<2>(body, &mut at)?;
        let ends = fields == END;
        let end = at - END.len();
        if ends || end - start >= size {
            if rows > 0 {
                found.push(Chunk {
                    tuples: &body[start..end],
                    rows,
                });
            }
            (start, rows) = (end, 0);
        }
        if ends {
            return Ok(found);
        }
        for _ in 0..i16::from_be_bytes(fields) {
            let length = i32::from_be_bytes(take(body, &mut at)?);
            // -1 is NULL and has no bytes.
            at += usize::try_from(length).unwrap_or(0);
        }
        rows += 1;
    }
}

fn take<const N: usize>(from: &[u8], at: &mut usize) -> Result<[u8; N]> {
    let bytes = from.get(*at..*at + N).ok_or("a binary COPY ends early")?;
    *at += N;
    Ok(bytes.try_into()?)
}

/// Everything that one COPY sends.
fn copy_messages(copy: &str, tuples: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tuples.len() + tuples.len() / PIECE * 5 + 200);
    query(&mut out, copy);
    message(&mut out, b'd', SIGNATURE);
    for piece in tuples.chunks(PIECE) {
        message(&mut out, b'd', piece);
    }
    message(&mut out, b'd', &END);
    message(&mut out, b'c', &[]);
    out
}

/// The transaction of a session: the tables take turns.
fn in_turn(tables: Vec<Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    let mut script = vec![Vec::new()];
    query(&mut script[0], "BEGIN");
    let mut tables: Vec<_> = tables.into_iter().map(Vec::into_iter).collect();
    while !tables.is_empty() {
        tables.retain_mut(|table| table.next().map(|chunk| script.push(chunk)).is_some());
    }
    let mut commit = Vec::new();
    query(&mut commit, "COMMIT");
    script.push(commit);
    script
}

fn query(out: &mut Vec<u8>, text: &str) {
    message(out, b'Q', format!("{text}\0").as_bytes());
}

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&length(body));
    out.extend_from_slice(body);
}

fn length(body: &[u8]) -> [u8; 4] {
    u32::try_from(body.len() + 4).unwrap_or(0).to_be_bytes()
}

/// A session that asked for no password.
struct Server {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Server {
    fn connect(port: u16) -> Result<Server> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0floor\0database\0postgres\0\0");
        let mut server = Server {
            replies: BufReader::new(stream.try_clone()?),
            stream,
        };
        server.stream.write_all(&length(&body))?;
        server.stream.write_all(&body)?;
        server.finish(1)?;
        Ok(server)
    }

    /// Reads until the server has been ready so many times.
    fn finish(&mut self, times: usize) -> Result<()> {
        let mut ready = 0;
        while ready < times {
            let mut header = [0; 5];
            self.replies.read_exact(&mut header)?;
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
            let mut body = vec![0; length as usize - 4];
            self.replies.read_exact(&mut body)?;
            match header[0] {
                b'Z' => ready += 1,
                b'E' => return Err(String::from_utf8_lossy(&body).replace('\0', " ").into()),
                b'R' if body != [0; 4] => return Err("the server asks for a password".into()),
                _ => {}
            }
        }
        Ok(())
    }
}
