//! The framing of PostgreSQL's frontend/backend protocol, read from a byte stream as it passes by.

/// Who sent something: the client of a connection (here mostly the coordinator), or the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The side that opened the connection.
    Client,
    /// The server.
    Shard,
}

impl Side {
    /// 0 for the client, 1 for the shard.
    pub fn index(self) -> usize {
        match self {
            Side::Client => 0,
            Side::Shard => 1,
        }
    }
}

/// Kind given to the client's untyped first messages, and to the one byte that answers a request for encryption.
pub const STARTUP: char = '^';
pub const CANCEL: char = '!';
pub const ENCRYPTION: char = '?';

/// How much of a message's body is looked at.
const HEAD: usize = 400;

/// One complete message.
pub struct Message {
    /// The protocol's type byte, or one of the kinds above.
    pub kind: char,
    /// Query text (Q, P), command tag (C of the shard), SQLSTATE and message (E, N), transaction status (Z); cut to
    /// a few hundred bytes, else empty.
    pub text: String,
    /// Where in the piece given to `feed` the message begins; zero if it began in an earlier one.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Cuts one direction of a connection into messages.
pub struct Splitter {
    side: Side,
    untyped: bool,
    opaque: bool,
    header: Vec<u8>,
    head: Vec<u8>,
    left: usize,
    one_byte: bool,
}

impl Splitter {
    pub fn new(side: Side) -> Splitter {
        Splitter {
            side,
            untyped: side == Side::Client,
            opaque: false,
            header: Vec::new(),
            head: Vec::new(),
            left: 0,
            one_byte: false,
        }
    }

    /// The shard's next byte answers a request for encryption.
    pub fn expect_one_byte(&mut self) {
        self.one_byte = true;
    }

    /// From here on the stream is encrypted: nothing more is found.
    pub fn give_up(&mut self) {
        self.opaque = true;
    }

    /// Takes the next piece of the stream and returns the messages that end in it.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<Message> {
        let mut found = Vec::new();
        let mut at = 0;
        let mut start = 0;
        while at < piece.len() && !self.opaque {
            if self.one_byte {
                self.one_byte = false;
                found.push(Message {
                    kind: ENCRYPTION,
                    text: char::from(piece[at]).to_string(),
                    start: at,
                    end: at + 1,
                });
                at += 1;
                continue;
            }
            let header_len = if self.untyped { 8 } else { 5 };
            if self.header.len() < header_len {
                if self.header.is_empty() {
                    start = at;
                }
                let take = (header_len - self.header.len()).min(piece.len() - at);
                self.header.extend_from_slice(&piece[at..at + take]);
                at += take;
                if self.header.len() < header_len {
                    break;
                }
                let length = u32::from_be_bytes(if self.untyped {
                    [
                        self.header[0],
                        self.header[1],
                        self.header[2],
                        self.header[3],
                    ]
                } else {
                    [
                        self.header[1],
                        self.header[2],
                        self.header[3],
                        self.header[4],
                    ]
                }) as usize;
                // The length counts itself, but not the type byte.
                self.left = (length + usize::from(!self.untyped)).saturating_sub(header_len);
                self.head.clear();
            }
            let take = self.left.min(piece.len() - at);
            let keep = take.min(HEAD - self.head.len());
            self.head.extend_from_slice(&piece[at..at + keep]);
            at += take;
            self.left -= take;
            if self.left == 0 {
                found.push(self.complete(start, at));
                start = at;
            }
        }
        found
    }

    fn complete(&mut self, start: usize, end: usize) -> Message {
        let kind = if self.untyped {
            let code = [
                self.header[4],
                self.header[5],
                self.header[6],
                self.header[7],
            ];
            match u32::from_be_bytes(code) {
                80_877_102 => CANCEL,
                80_877_103 | 80_877_104 => ENCRYPTION,
                _ => {
                    self.untyped = false;
                    STARTUP
                }
            }
        } else {
            char::from(self.header[0])
        };
        self.header.clear();
        Message {
            kind,
            text: self.text(kind),
            start,
            end,
        }
    }

    fn text(&self, kind: char) -> String {
        let mut strings = self.head.split(|byte| *byte == 0);
        let mut next = || String::from_utf8_lossy(strings.next().unwrap_or_default()).into_owned();
        match (self.side, kind) {
            (Side::Client, 'Q' | 'f') | (Side::Shard, 'C') => next(),
            (Side::Client, 'P') => {
                next();
                next()
            }
            (Side::Shard, 'Z') => next(),
            (Side::Shard, 'E' | 'N') => {
                let fields: Vec<String> = std::iter::repeat_with(next)
                    .take_while(|field| !field.is_empty())
                    .collect();
                let field = |code: char| {
                    fields
                        .iter()
                        .find_map(|field| field.strip_prefix(code))
                        .unwrap_or_default()
                };
                format!("{} {}", field('C'), field('M'))
            }
            _ => String::new(),
        }
    }
}
