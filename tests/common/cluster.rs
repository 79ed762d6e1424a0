//! A PostgreSQL server of our own, that lives as long as its value.

use super::install::bin_dir;
use super::log::suspicious;
use super::process::{command, ended_within, free_port, give_to_account, process_signal, spawn};
use super::setup::Setup;
use super::simple::Simple;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
/// A backend that does not end within this time of a fast shutdown is stuck: a fault of what is under test.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// A running server with a data folder of its own.
pub struct Cluster {
    setup: Setup,
    dir: PathBuf,
    port: u16,
    server: Option<Child>,
    kills_expected: bool,
}

impl Cluster {
    /// A server of the version under test with default settings.
    pub fn start() -> Cluster {
        Setup::new().start()
    }

    /// A server whose data folder is in place, not started yet.
    pub(super) fn prepared(setup: Setup, dir: PathBuf) -> Cluster {
        Cluster {
            setup,
            dir,
            port: 0,
            server: None,
            kills_expected: false,
        }
    }

    /// The TCP port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket, for `host=`.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// A folder that user postgres can write to, removed with the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A connection to database postgres as superuser postgres, with the extended protocol and typed values.
    pub fn connect(&self) -> postgres::Client {
        self.connect_as("postgres", "postgres")
    }

    /// A connection to the given database as the given user.
    pub fn connect_as(&self, dbname: &str, user: &str) -> postgres::Client {
        postgres::Config::new()
            .host("127.0.0.1")
            .port(self.port)
            .dbname(dbname)
            .user(user)
            .connect(postgres::NoTls)
            .unwrap_or_else(|e| panic!("connect to port {}: {e}", self.port))
    }

    /// A simple-protocol connection to database postgres: text values and command tags, as psql sees them.
    pub fn simple(&self) -> Simple {
        self.simple_as("postgres", "postgres")
    }

    /// A simple-protocol connection to the given database as the given user.
    pub fn simple_as(&self, dbname: &str, user: &str) -> Simple {
        Simple::connect(self.port, dbname, user)
            .unwrap_or_else(|e| panic!("connect to port {}: {e}", self.port))
    }

    /// Runs statements on a connection of their own; any error fails the test.
    pub fn sql(&self, statements: &str) {
        self.simple().run(statements).expect_ok();
    }

    /// The single value of a query, as text.
    pub fn value(&self, query: &str) -> String {
        self.simple().run(query).value()
    }

    /// Runs psql of the version under test on database postgres with a script as its input.
    pub fn psql(&self, options: &[&str], script: &str) -> Output {
        use std::io::Write;
        let mut child = command(&bin_dir().join("psql"))
            .args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-p"])
            .arg(self.port.to_string())
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start psql");
        let mut input = child.stdin.take().expect("psql's input");
        let script = script.to_string();
        let feeder = std::thread::spawn(move || {
            // psql may have given up before the end of its input
            let _ = input.write_all(script.as_bytes());
        });
        let output = child.wait_with_output().expect("wait for psql");
        feeder.join().expect("feed psql");
        output
    }

    /// The server log so far.
    pub fn log(&self) -> String {
        std::fs::read(self.dir.join("log")).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// From now on, backends of this server may be killed by signal 9.
    pub fn expect_kills(&mut self) {
        self.kills_expected = true;
    }

    /// Fails if the log tells of a crash, an assertion or a leak. Done when the value is dropped, too.
    pub fn check_log(&self) {
        let log = self.log();
        let bad = suspicious(&log, self.kills_expected);
        assert!(
            bad.is_empty(),
            "the server log in {} must not hold:\n{}",
            self.dir.display(),
            bad.join("\n")
        );
    }

    /// Fast shutdown (SIGINT), and waits for it.
    pub fn stop(&mut self) {
        if let Err(problem) = self.shut_down(libc::SIGINT) {
            panic!("{problem}");
        }
    }

    /// Immediate shutdown (SIGQUIT): for clients, a crash.
    pub fn stop_immediately(&mut self) {
        if let Err(problem) = self.shut_down(libc::SIGQUIT) {
            panic!("{problem}");
        }
    }

    /// Starts a stopped server on the port it had.
    pub fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server still runs");
        if let Err(problem) = self.try_start() {
            panic!("{problem}");
        }
    }

    /// Stops and starts, on the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// The process id of the postmaster.
    pub fn postmaster_pid(&self) -> i32 {
        let child = self.server.as_ref().expect("the server is stopped");
        child.id().try_into().expect("process id")
    }

    /// Cancels what a backend runs by one signal. Before 18, a cancel request of the protocol makes two of them, and the
    /// second may come when the first has been caught.
    pub fn cancel_backend(&self, pid: i32) {
        let cancelled = self.value(&format!("SELECT pg_cancel_backend({pid})"));
        assert_eq!(cancelled, "t");
    }

    /// Kills a backend by signal 9 and waits until the server has restarted itself and accepts connections.
    pub fn kill_backend(&mut self, pid: i32) {
        self.kills_expected = true;
        let restarts = self.restarts();
        process_signal(pid, libc::SIGKILL);
        let end = Instant::now() + START_LIMIT;
        while self.restarts() == restarts
            || Simple::connect(self.port, "postgres", "postgres").is_err()
        {
            assert!(Instant::now() < end, "the server does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How often the server has restarted itself after a crash.
    fn restarts(&self) -> usize {
        self.log()
            .matches("all server processes terminated; reinitializing")
            .count()
    }

    pub(super) fn start_on_free_port(&mut self) {
        let mut problem = String::new();
        // Between our look and the server's bind, somebody else may take the port.
        for _ in 0..5 {
            self.port = free_port();
            match self.try_start() {
                Ok(()) => return,
                Err(e) => problem = e,
            }
        }
        panic!("{problem}");
    }

    fn try_start(&mut self) -> Result<(), String> {
        self.write_settings();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .map_err(|e| format!("open the server log: {e}"))?;
        let errors = log
            .try_clone()
            .map_err(|e| format!("share the server log: {e}"))?;
        let mut postgres = self.setup.command("postgres");
        postgres
            .arg("-D")
            .arg(self.dir.join("data"))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let mut child = spawn(postgres).map_err(|e| format!("start postgres: {e}"))?;

        let end = Instant::now() + START_LIMIT;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("postgres ended ({status}):\n{}", self.log()));
            }
            if Simple::connect(self.port, "postgres", "postgres").is_ok() {
                self.server = Some(child);
                return Ok(());
            }
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("postgres does not come up:\n{}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn write_settings(&self) {
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n",
            self.port,
            self.dir.display()
        );
        text.push_str(
            "fsync = off\nfull_page_writes = off\nautovacuum = off\nmax_prepared_transactions = 10\n\
             log_line_prefix = '%m [%p] %q%u@%d %a '\nlc_messages = 'C'\n",
        );
        // So that few rows are enough for COPY with transport "auto".
        if let Ok(rows) = std::env::var("COPY_ROWS") {
            text.push_str(&format!("shard_fdw.copy_rows = {rows}\n"));
        }
        for (name, value) in self.setup.settings() {
            text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        let path = self.dir.join("data/postgresql.auto.conf");
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
        give_to_account(&path);
    }

    fn shut_down(&mut self, signal: i32) -> Result<(), String> {
        let Some(mut child) = self.server.take() else {
            return Ok(());
        };
        let pid = child.id().try_into().expect("process id");
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the server has ended by itself ({status})"));
        }
        process_signal(pid, signal);
        if ended_within(&mut child, STOP_LIMIT) {
            return Ok(());
        }
        process_signal(pid, libc::SIGQUIT);
        if !ended_within(&mut child, Duration::from_secs(10)) {
            let _ = child.kill();
            let _ = child.wait();
        }
        Err("the server did not stop: a backend does not react to its termination".to_string())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = self.shut_down(libc::SIGINT);
        let log = self.log();
        let bad = suspicious(&log, self.kills_expected).join("\n");
        if std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("--- end of the server log on port {}:\n{tail}", self.port);
            if !bad.is_empty() {
                eprintln!("--- suspicious lines of that log:\n{bad}");
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        if std::thread::panicking() {
            return;
        }
        if let Err(problem) = stopped {
            panic!("{problem}");
        }
        assert!(bad.is_empty(), "the server log must not hold:\n{bad}");
    }
}
