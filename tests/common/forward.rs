//! The threads behind a proxy: what they read, note, hold back and hand on.

use super::proxy::{Event, How, Traffic};
use super::wire::{Message, Side, Splitter, CANCEL, ENCRYPTION, STARTUP};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often a waiting thread looks whether its connection is to be cut.
const LOOK: Duration = Duration::from_millis(10);
/// Pieces of up to 64 kB that may wait in one direction, as in a long cable.
const PIECES_UNDER_WAY: usize = 64;

pub struct Trigger {
    pub from: Side,
    pub text: String,
    pub hand_on: bool,
    pub how: How,
}

pub struct Link {
    pub last: Option<Side>,
    pub splitters: [Splitter; 2],
    pub ends: Option<[Arc<TcpStream>; 2]>,
    /// Directions that have not ended.
    pub directions: usize,
    /// Brought a cancel request.
    pub cancels: bool,
    /// Began as a session, so it will bring no cancel request.
    pub is_session: bool,
    /// To be cut in a moment: nothing more is written in this direction.
    pub silenced: [bool; 2],
    pub cut: bool,
}

pub struct State {
    pub delay: Duration,
    pub stalled: [bool; 2],
    /// Cancel requests and their answers are not stalled.
    pub cancels_pass: bool,
    pub refuse: bool,
    pub stop: bool,
    pub triggers: Vec<Trigger>,
    pub fired: usize,
    pub links: Vec<Link>,
    pub events: Vec<Event>,
    /// Number of events dropped by `reset`, so that a piece under way finds its own.
    pub forgotten: usize,
    pub traffic: Traffic,
    /// Pieces that are being written at this moment.
    pub writing: usize,
}

pub struct Shared {
    pub target: u16,
    pub state: Mutex<State>,
    pub changed: Condvar,
}

enum Parcel {
    Piece {
        bytes: Vec<u8>,
        due: Instant,
        events: std::ops::Range<usize>,
    },
    Cut(How),
    End,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking test must still be able to drop its proxy.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn is_cut(&self, number: usize) -> bool {
        self.lock().links[number].cut
    }

    /// Counts what was read and says what is to be done with it.
    fn arrived(&self, number: usize, from: Side, bytes: &[u8]) -> Vec<Parcel> {
        let at = Instant::now();
        let mut state = self.lock();
        let state = &mut *state;
        let due = at + state.delay;
        let link = &mut state.links[number];

        let length = bytes.len() as u64;
        match from {
            Side::Client => state.traffic.bytes_from_client += length,
            Side::Shard => {
                state.traffic.bytes_from_shard += length;
                if link.last == Some(Side::Client) {
                    state.traffic.round_trips += 1;
                }
            }
        }
        link.last = Some(from);

        let first = state.forgotten + state.events.len();
        let mut cut = None;
        let mut keep = bytes.len();
        let mut held_back = 0;
        for message in link.splitters[from.index()].feed(bytes) {
            link.note_encryption(from, &message);
            link.cancels |= message.kind == CANCEL;
            link.is_session |= message.kind == STARTUP;
            *state
                .traffic
                .messages
                .entry((from, message.kind))
                .or_default() += 1;
            state.traffic.cancels += u64::from(message.kind == CANCEL);
            let hit = state
                .triggers
                .iter()
                .position(|t| t.from == from && t.hits(&message));
            if !matches!(message.kind, 'D' | 'd') || from == Side::Client && message.kind == 'D' {
                state.events.push(Event {
                    connection: number,
                    from,
                    kind: message.kind,
                    text: message.text,
                    at,
                    handed_on: false,
                    arrived: false,
                });
            }
            if let Some(hit) = hit {
                let trigger = state.triggers.remove(hit);
                state.fired += 1;
                cut = Some(trigger.how);
                // The answer to what is handed on shall not slip through before the cut.
                link.silenced[1 - from.index()] = true;
                // What is handed on goes with the rest of its piece: a Parse alone would do nothing.
                if !trigger.hand_on {
                    keep = message.start;
                    held_back = 1;
                    break;
                }
            }
        }
        let last = state.forgotten + state.events.len() - held_back;

        let mut parcels = Vec::new();
        if keep > 0 {
            parcels.push(Parcel::Piece {
                bytes: bytes[..keep].to_vec(),
                due,
                events: first..last,
            });
        }
        parcels.extend(cut.map(Parcel::Cut));
        parcels
    }

    /// Marks events before (`done` false) and after they are written.
    fn mark(&self, events: &std::ops::Range<usize>, done: bool) {
        let mut state = self.lock();
        if done {
            state.writing -= 1;
            self.changed.notify_all();
        } else {
            state.writing += 1;
        }
        let forgotten = state.forgotten;
        for number in events.clone() {
            let Some(event) = number
                .checked_sub(forgotten)
                .and_then(|index| state.events.get_mut(index))
            else {
                continue;
            };
            event.handed_on = true;
            event.arrived |= done;
        }
    }

    /// Waits while this direction is stalled; false if the connection is to be cut.
    fn may_pass(&self, number: usize, from: Side) -> bool {
        let mut state = self.lock();
        let held = |state: &State| {
            let link = &state.links[number];
            // A cancel request may be preceded by one for encryption, whose answer it waits for.
            let passes = state.cancels_pass && (link.cancels || !link.is_session);
            state.stalled[from.index()] && !passes || link.silenced[from.index()]
        };
        while held(&state) && !state.links[number].cut {
            state = self
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
        !state.links[number].cut
    }
}

impl Trigger {
    fn hits(&self, message: &Message) -> bool {
        let telling = match self.from {
            Side::Client => matches!(message.kind, 'Q' | 'P'),
            Side::Shard => message.kind == 'C',
        };
        telling && begins(&message.text, &self.text)
    }
}

impl Link {
    /// The threads of the connection see the mark and let go of the sockets.
    pub fn cut(&mut self, how: How) {
        self.cut = true;
        let Some(ends) = self.ends.take() else {
            return;
        };
        for end in &ends {
            match how {
                How::Reset => {
                    // Closing then resets instead of saying farewell.
                    let linger = Some(Duration::ZERO);
                    let _ = socket2::SockRef::from(end.as_ref()).set_linger(linger);
                }
                How::Close => {
                    let _ = end.shutdown(Shutdown::Both);
                }
            }
        }
    }

    fn note_encryption(&mut self, from: Side, message: &Message) {
        if message.kind != ENCRYPTION {
            return;
        }
        match from {
            Side::Client => self.splitters[1].expect_one_byte(),
            Side::Shard if message.text != "N" => {
                for splitter in &mut self.splitters {
                    splitter.give_up();
                }
            }
            Side::Shard => {}
        }
    }
}

pub fn begins(text: &str, with: &str) -> bool {
    let text = text.trim_start();
    text.get(..with.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(with))
}

pub fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let Ok(client) = client else { return };
        {
            let state = shared.lock();
            if state.stop {
                return;
            }
            if state.refuse {
                continue;
            }
        }
        let Ok(shard) = TcpStream::connect(("127.0.0.1", shared.target)) else {
            // Dropped, the client sees what a dead shard looks like through a proxy.
            continue;
        };
        let ends = [Arc::new(client), Arc::new(shard)];
        for end in &ends {
            let _ = end.set_nodelay(true);
            let _ = end.set_read_timeout(Some(LOOK));
            let _ = end.set_write_timeout(Some(LOOK));
        }
        let number = {
            let mut state = shared.lock();
            state.traffic.connections += 1;
            state.links.push(Link {
                last: None,
                splitters: [Splitter::new(Side::Client), Splitter::new(Side::Shard)],
                ends: Some(ends.clone()),
                directions: 2,
                cancels: false,
                is_session: false,
                silenced: [false; 2],
                cut: false,
            });
            state.links.len() - 1
        };
        for from in [Side::Client, Side::Shard] {
            let (sender, receiver) = sync_channel(PIECES_UNDER_WAY);
            let source = ends[from.index()].clone();
            let sink = ends[1 - from.index()].clone();
            let (reading, writing) = (shared.clone(), shared.clone());
            std::thread::spawn(move || read(&reading, number, from, &source, &sender));
            std::thread::spawn(move || write(&writing, number, from, &sink, &receiver));
        }
    }
}

fn read(
    shared: &Shared,
    number: usize,
    from: Side,
    mut source: &TcpStream,
    parcels: &SyncSender<Parcel>,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        if shared.is_cut(number) {
            return;
        }
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                for parcel in shared.arrived(number, from, &buffer[..n]) {
                    if parcels.send(parcel).is_err() {
                        return;
                    }
                }
            }
            Err(e) if is_timeout(&e) => {}
            Err(_) => break,
        }
    }
    let _ = parcels.send(Parcel::End);
}

fn write(shared: &Shared, number: usize, from: Side, sink: &TcpStream, parcels: &Receiver<Parcel>) {
    loop {
        let parcel = match parcels.recv_timeout(LOOK) {
            Ok(parcel) => parcel,
            Err(RecvTimeoutError::Timeout) if !shared.is_cut(number) => continue,
            Err(_) => break,
        };
        if !shared.may_pass(number, from) {
            break;
        }
        match parcel {
            Parcel::Piece { bytes, due, events } => {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if !shared.may_pass(number, from) {
                    break;
                }
                shared.mark(&events, false);
                let written = write_all(shared, number, sink, &bytes);
                shared.mark(if written { &events } else { &(0..0) }, true);
                if !written {
                    shared.change(|state| state.links[number].cut(How::Close));
                    break;
                }
            }
            Parcel::Cut(how) => {
                shared.change(|state| state.links[number].cut(how));
                break;
            }
            Parcel::End => {
                let _ = sink.shutdown(Shutdown::Write);
                break;
            }
        }
    }
    let mut state = shared.lock();
    let link = &mut state.links[number];
    link.directions -= 1;
    if link.directions == 0 {
        link.ends = None;
    }
}

fn write_all(shared: &Shared, number: usize, mut sink: &TcpStream, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        match sink.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(e) if is_timeout(&e) && !shared.is_cut(number) => {}
            Err(_) => return false,
        }
    }
    true
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
