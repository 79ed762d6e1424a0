//! A TCP forwarder between a coordinator and a shard, that delays, stalls, cuts and counts.

use super::wire::{Message, Side, Splitter, CANCEL, ENCRYPTION};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a waiting thread looks whether its connection is to be cut.
const LOOK: Duration = Duration::from_millis(10);
/// Pieces of up to 64 kB that may wait in one direction, as in a long cable.
const PIECES_UNDER_WAY: usize = 64;

/// How a connection is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Both ends get a connection reset.
    Reset,
    /// Both ends see the end of the stream.
    Close,
}

/// A message that passed, DataRow and CopyData excepted (they are only counted).
#[derive(Clone, Debug)]
pub struct Event {
    /// Number of the connection, from 0 in the order of their beginning.
    pub connection: usize,
    pub from: Side,
    /// The protocol's type byte; `^` startup, `!` cancel request, `?` request for encryption and its answer.
    pub kind: char,
    /// Query text, command tag, SQLSTATE and message, or transaction status; see [`super::wire::Message`].
    pub text: String,
    /// When the proxy had read it.
    pub at: Instant,
    /// The proxy has begun to hand it on: the other side may have it.
    pub handed_on: bool,
    /// The other side's kernel has taken it.
    pub arrived: bool,
}

/// What passed since the start or the last `reset`.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// How often the shard sent something after the client had, over all connections.
    pub round_trips: u64,
    pub bytes_from_client: u64,
    pub bytes_from_shard: u64,
    /// Connections that began, cancel requests included.
    pub connections: u64,
    pub cancels: u64,
    messages: BTreeMap<(Side, char), u64>,
}

impl Traffic {
    /// How many messages of a type one side has sent.
    pub fn messages(&self, from: Side, kind: char) -> u64 {
        self.messages.get(&(from, kind)).copied().unwrap_or(0)
    }
}

/// How far the COMMIT of a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// No COMMIT can have reached the shard.
    NotSent,
    /// A COMMIT may have reached the shard, and its answer has not come back.
    Unanswered,
    /// The answer COMMIT has been delivered to the client.
    Committed,
    /// The shard answered with an error or with ROLLBACK, and that was delivered.
    Refused,
}

struct Trigger {
    from: Side,
    text: String,
    hand_on: bool,
    how: How,
}

struct Link {
    last: Option<Side>,
    splitters: [Splitter; 2],
    ends: Option<[Arc<TcpStream>; 2]>,
    /// Directions that have not ended.
    directions: usize,
    /// To be cut in a moment: nothing more is written in this direction.
    silenced: [bool; 2],
    cut: bool,
}

struct State {
    delay: Duration,
    stalled: [bool; 2],
    refuse: bool,
    stop: bool,
    triggers: Vec<Trigger>,
    fired: usize,
    links: Vec<Link>,
    events: Vec<Event>,
    /// Number of events dropped by `reset`, so that a piece under way finds its own.
    forgotten: usize,
    traffic: Traffic,
    /// Pieces that are being written at this moment.
    writing: usize,
}

struct Shared {
    target: u16,
    state: Mutex<State>,
    changed: Condvar,
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

/// The forwarder. All its connections end when it is dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Forwards a free port of 127.0.0.1 to the given one.
    pub fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind the proxy");
        let port = listener.local_addr().expect("address of the proxy").port();
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(State {
                delay: Duration::ZERO,
                stalled: [false; 2],
                refuse: false,
                stop: false,
                triggers: Vec::new(),
                fired: 0,
                links: Vec::new(),
                events: Vec::new(),
                forgotten: 0,
                traffic: Traffic::default(),
                writing: 0,
            }),
            changed: Condvar::new(),
        });
        let acceptor = {
            let shared = shared.clone();
            std::thread::spawn(move || accept(&listener, &shared))
        };
        Proxy {
            port,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything takes this much longer, in each direction, however much it is.
    pub fn set_delay(&self, each_way: Duration) {
        self.shared.lock().delay = each_way;
    }

    /// Holds back everything in both directions, as a network that drops all packets.
    pub fn stall(&self) {
        self.shared.change(|state| state.stalled = [true; 2]);
    }

    /// Holds back what one side sends.
    pub fn stall_from(&self, side: Side) {
        self.shared
            .change(|state| state.stalled[side.index()] = true);
    }

    /// Lets everything pass again.
    pub fn resume(&self) {
        self.shared.change(|state| state.stalled = [false; 2]);
    }

    /// New connections are closed at once, until this is turned off.
    pub fn refuse(&self, on: bool) {
        self.shared.change(|state| state.refuse = on);
    }

    /// Cuts all connections.
    pub fn cut_all(&self, how: How) {
        self.shared.change(|state| {
            for link in &mut state.links {
                link.cut(how);
            }
        });
    }

    /// Cuts one connection, by its number.
    pub fn cut(&self, connection: usize, how: How) {
        self.shared.change(|state| state.links[connection].cut(how));
    }

    /// When a query, or a command tag of the shard, begins with `text`: cuts that connection instead of handing the
    /// message on. Works once.
    pub fn cut_before(&self, from: Side, text: &str, how: How) {
        self.trigger(from, text, false, how);
    }

    /// The same, after the message has been handed on; nothing of the other side comes through any more.
    pub fn cut_after(&self, from: Side, text: &str, how: How) {
        self.trigger(from, text, true, how);
    }

    fn trigger(&self, from: Side, text: &str, hand_on: bool, how: How) {
        let text = text.to_string();
        self.shared.lock().triggers.push(Trigger {
            from,
            text,
            hand_on,
            how,
        });
    }

    /// How many of the cuts asked for by `cut_before` and `cut_after` have happened.
    pub fn triggered(&self) -> usize {
        self.shared.lock().fired
    }

    /// Forgets counters and events; connections stay.
    pub fn reset(&self) {
        let mut state = self.shared.lock();
        state.forgotten += state.events.len();
        state.events.clear();
        state.traffic = Traffic::default();
    }

    /// The counters.
    pub fn traffic(&self) -> Traffic {
        self.shared.lock().traffic.clone()
    }

    /// The messages, oldest first.
    pub fn events(&self) -> Vec<Event> {
        // Who has just received something may ask before its writer has said so.
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, Duration::from_secs(1), |s| s.writing > 0)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.events.clone()
    }

    /// Query texts that the client sent (Query and Parse), oldest first.
    pub fn queries(&self) -> Vec<String> {
        let is_query = |e: &Event| e.from == Side::Client && matches!(e.kind, 'Q' | 'P');
        self.events()
            .into_iter()
            .filter(is_query)
            .map(|e| e.text)
            .collect()
    }

    /// Numbers of the connections that are open.
    pub fn open_connections(&self) -> Vec<usize> {
        let state = self.shared.lock();
        let links = state.links.iter().enumerate();
        links
            .filter(|(_, link)| link.ends.is_some())
            .map(|(number, _)| number)
            .collect()
    }

    /// How far the last COMMIT of a connection has come since the last `reset`.
    pub fn commit(&self, connection: usize) -> Commit {
        let mut commit = Commit::NotSent;
        for event in self.events() {
            if event.connection != connection {
                continue;
            }
            match (event.from, event.kind) {
                (Side::Client, 'Q' | 'P') if begins(&event.text, "COMMIT") => {
                    commit = if event.handed_on {
                        Commit::Unanswered
                    } else {
                        Commit::NotSent
                    };
                }
                (Side::Shard, 'C') if commit == Commit::Unanswered && event.arrived => {
                    if event.text == "COMMIT" {
                        commit = Commit::Committed;
                    } else if event.text == "ROLLBACK" {
                        commit = Commit::Refused;
                    }
                }
                (Side::Shard, 'E') if commit == Commit::Unanswered && event.arrived => {
                    commit = Commit::Refused;
                }
                _ => {}
            }
        }
        commit
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.stop = true;
            for link in &mut state.links {
                link.cut(How::Close);
            }
        });
        // Wakes the acceptor.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking test must still be able to drop its proxy.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
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
            state.stalled[from.index()] || state.links[number].silenced[from.index()]
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
    fn cut(&mut self, how: How) {
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

fn begins(text: &str, with: &str) -> bool {
    let text = text.trim_start();
    text.get(..with.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(with))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
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
