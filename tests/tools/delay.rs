//! A cable of a given length: forwards TCP connections to a port of 127.0.0.1, everything later by the same time.
//!
//!     delay PORT
//!
//! Prints the port it listens on, then answers commands on its input with one line each, until that ends:
//!
//! - `delay MS`: what connections made from now on shall add in each direction;
//! - `trips`: how often the server has spoken after the client had, since the last time this was asked.
//!
//! It looks into nothing and polls for nothing. Each direction has one thread that reads and one that writes, and a
//! line between them in which every piece waits until its own time: throughput does not depend on the delay.

use std::collections::VecDeque;
use std::io::{BufRead, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What may be on the way in one direction: more than any two sides here leave unanswered.
const CAPACITY: usize = 32 << 20;
const PIECE: usize = 256 << 10;

/// Microseconds each way.
static DELAY: AtomicU64 = AtomicU64::new(0);
static TRIPS: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<()> {
    let usage = || std::io::Error::other("usage: delay PORT");
    let target: u16 = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .ok_or_else(usage)?;
    // Timers are late by 50 µs otherwise, much beside 200 µs. Threads inherit it.
    let _ = std::fs::write("/proc/self/timerslack_ns", "1000");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that gets no connection sees it closed, as without this program.
            let _ = connect(client, target);
        }
    });
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("delay", ms) => {
                let ms: f64 = ms.parse().map_err(|_| usage())?;
                DELAY.store((ms * 1000.0).round() as u64, SeqCst);
                println!("ok");
            }
            ("trips", _) => println!("{}", TRIPS.swap(0, SeqCst)),
            _ => println!("unknown command"),
        }
    }
    Ok(())
}

fn connect(client: TcpStream, target: u16) -> Result<()> {
    let server = TcpStream::connect(("127.0.0.1", target))?;
    let delay = Duration::from_micros(DELAY.load(SeqCst));
    let spoke_last = Arc::new(AtomicUsize::new(0));
    for (side, from, to) in [(0, &client, &server), (1, &server, &client)] {
        from.set_nodelay(true)?;
        let line = Arc::new(Line::default());
        let (source, sink) = (from.try_clone()?, to.try_clone()?);
        let (entry, exit) = (line.clone(), line);
        let spoke_last = spoke_last.clone();
        std::thread::spawn(move || {
            read(source, delay, &entry, || {
                if spoke_last.swap(side, SeqCst) == 0 && side == 1 {
                    TRIPS.fetch_add(1, SeqCst);
                }
            });
        });
        std::thread::spawn(move || write(sink, &exit));
    }
    Ok(())
}

/// What is on the way in one direction.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// The reading end has seen the end of the stream.
    ended: bool,
    /// The writing end has nobody to write to.
    broken: bool,
}

impl Line {
    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed
            .wait_while(state, condition)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.wait_while(|_| false));
        self.changed.notify_all();
    }
}

fn read(mut source: TcpStream, delay: Duration, line: &Line, spoken: impl Fn()) {
    let mut buffer = vec![0; PIECE];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        let due = Instant::now() + delay;
        spoken();
        let mut state = line.wait_while(|line| line.bytes > CAPACITY && !line.broken);
        if state.broken {
            break;
        }
        state.bytes += length;
        state.pieces.push_back((due, buffer[..length].to_vec()));
        drop(state);
        line.changed.notify_all();
    }
    line.change(|line| line.ended = true);
}

fn write(mut sink: TcpStream, line: &Line) {
    loop {
        let mut state = line.wait_while(|line| line.pieces.is_empty() && !line.ended);
        let Some((due, bytes)) = state.pieces.pop_front() else {
            break;
        };
        drop(state);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if sink.write_all(&bytes).is_err() {
            line.change(|line| line.broken = true);
            break;
        }
        line.change(|line| line.bytes -= bytes.len());
    }
    let _ = sink.shutdown(Shutdown::Write);
}
