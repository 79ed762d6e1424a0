//! A TCP forwarder between a coordinator and a shard, that delays, stalls, cuts and counts.

use super::forward::{accept, begins, Shared, State, Trigger};
use super::simple::Simple;
use super::wait::add_witness;
use super::wire::Side;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

impl Event {
    fn summary(&self) -> String {
        let whereabouts = match (self.handed_on, self.arrived) {
            (_, true) => "arrived",
            (true, false) => "handed on",
            (false, false) => "held back",
        };
        let text: String = self.text.chars().take(70).collect();
        format!(
            "{} from {:?}, {whereabouts}: {} {text:?}",
            self.connection, self.from, self.kind
        )
    }
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
    pub(super) messages: BTreeMap<(Side, char), u64>,
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
                cancels_pass: false,
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
        add_witness(&shared);
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

    /// From now on, stalls do not concern cancel requests: libpq waits for their end, before 17 without looking up.
    pub fn let_cancels_pass(&self) {
        self.shared.lock().cancels_pass = true;
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

    /// Whether a query that begins with `text` came from the client and has not been handed on.
    pub fn holds_back(&self, text: &str) -> bool {
        self.events().iter().any(|event| {
            let is_query = event.from == Side::Client && matches!(event.kind, 'Q' | 'P');
            is_query && begins(&event.text, text) && !event.handed_on
        })
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

/// What a proxy has seen last, and what the shard behind it is doing, for a test that fails.
pub fn report(shared: &Shared) -> String {
    let mut report = {
        let state = shared.lock();
        let stalled = [Side::Client, Side::Shard].map(|side| state.stalled[side.index()]);
        let traffic = &state.traffic;
        let head = format!(
            "\n--- proxy to port {}: stalled from client, shard: {stalled:?}; since the reset {} connections, {} cancel \
             requests, {} bytes from the client, {} from the shard",
            shared.target,
            traffic.connections,
            traffic.cancels,
            traffic.bytes_from_client,
            traffic.bytes_from_shard
        );
        let last = state.events.len().saturating_sub(40);
        state.events[last..]
            .iter()
            .fold(head, |report, event| report + "\n" + &event.summary())
    };
    let activity =
        "SELECT pid, application_name, state, wait_event_type, wait_event, left(query, 60)
        FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    report.push_str("\n--- backends there:");
    match Simple::connect(shared.target, "postgres", "postgres") {
        Ok(mut shard) => {
            for line in shard.run(activity).lines() {
                report.push_str(&format!("\n{line}"));
            }
        }
        Err(error) => report.push_str(&format!(" {error}")),
    }
    report
}
