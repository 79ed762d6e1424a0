//! A PostgreSQL server of our own, that lives as long as its value.

use super::install::{account, bin_dir, cache_dir, command, give_to_account, shard_bin_dir};
use super::log::suspicious;
use super::simple::Simple;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, OnceLock};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
/// A backend that does not end within this time of a fast shutdown is stuck: a fault of what is under test.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// How a cluster is to be started.
#[derive(Clone)]
pub struct Setup {
    bin: PathBuf,
    settings: Vec<(String, String)>,
    initdb: Vec<String>,
    files: Vec<(String, String)>,
}

impl Setup {
    /// A server of the version under test.
    pub fn new() -> Setup {
        Setup::in_dir(bin_dir().to_path_buf())
    }

    /// A server of another major version, for use as a shard.
    pub fn of_major(major: u16) -> Setup {
        Setup::in_dir(shard_bin_dir(major))
    }

    fn in_dir(bin: PathBuf) -> Setup {
        Setup {
            bin,
            settings: Vec::new(),
            initdb: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Adds a line to postgresql.conf; later ones win.
    pub fn set(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.to_string(), value.to_string()));
        self
    }

    /// Adds an option of initdb, as `--encoding=LATIN1`; the default is UTF8 with locale C.
    pub fn initdb(mut self, option: &str) -> Setup {
        self.initdb.push(option.to_string());
        self
    }

    /// Writes a file into the data folder before the start, as pg_hba.conf.
    pub fn file(mut self, name: &str, content: &str) -> Setup {
        self.files.push((name.to_string(), content.to_string()));
        self
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(self) -> Cluster {
        let dir = temp_dir();
        let data = dir.join("data");
        self.make_data(&data);
        for (name, content) in &self.files {
            let path = data.join(name);
            std::fs::write(&path, content)
                .unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
            give_to_account(&path);
        }
        let mut cluster = Cluster {
            setup: self,
            dir,
            port: 0,
            server: None,
            kills_expected: false,
        };
        cluster.start_on_free_port();
        cluster
    }

    /// Copies a data folder made once for this installation: initdb takes most of a second.
    fn make_data(&self, data: &Path) {
        if !self.initdb.is_empty() {
            self.run_initdb(data);
            return;
        }
        let template = self.template();
        let mut copy = command(Path::new("/bin/cp"));
        copy.arg("-a").arg(&template).arg(data);
        run(copy, "copy the data folder");
    }

    fn template(&self) -> PathBuf {
        let binary = self.bin.join("postgres");
        let stamp = std::fs::metadata(&binary)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .map_or(0, |age| age.as_nanos());
        let name: String = format!("{}-{stamp}", self.bin.display())
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let shelf = match account() {
            Some(_) => cache_dir().join("data"),
            None => std::env::temp_dir().join("shard_fdw-data"),
        };
        let template = shelf.join(name);
        if template.exists() {
            return template;
        }
        std::fs::create_dir_all(&shelf).expect("create the folder of data templates");
        give_to_account(&shelf);
        let fresh = shelf.join(format!("new-{}-{}", std::process::id(), next_number()));
        self.run_initdb(&fresh);
        // Another test may have been faster: then its folder serves as well.
        if std::fs::rename(&fresh, &template).is_err() {
            let _ = std::fs::remove_dir_all(&fresh);
        }
        template
    }

    fn run_initdb(&self, data: &Path) {
        let mut initdb = command(&self.bin.join("initdb"));
        initdb
            .arg("-D")
            .arg(data)
            .args(["-A", "trust", "-N", "-U", "postgres", "--locale=C"]);
        if !self.initdb.iter().any(|o| o.starts_with("--encoding")) {
            initdb.arg("--encoding=UTF8");
        }
        initdb.args(&self.initdb);
        run(initdb, "initdb");
    }
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}

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

    /// Kills a backend by signal 9 and waits until the server has restarted itself and accepts connections.
    pub fn kill_backend(&mut self, pid: i32) {
        self.kills_expected = true;
        let restarts = self.restarts();
        super::install::process_signal(pid, libc::SIGKILL);
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

    fn start_on_free_port(&mut self) {
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
        let mut postgres = command(&self.setup.bin.join("postgres"));
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
        for (name, value) in &self.setup.settings {
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
        super::install::process_signal(pid, signal);
        if ended_within(&mut child, STOP_LIMIT) {
            return Ok(());
        }
        super::install::process_signal(pid, libc::SIGQUIT);
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

fn ended_within(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn run(mut command: Command, what: &str) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(
        output.status.success(),
        "{what} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A new folder that belongs to the servers' user; its path is short, because sockets lie in it.
pub fn temp_dir() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("sf{}-{}", std::process::id(), next_number()));
    std::fs::create_dir(&dir).unwrap_or_else(|e| panic!("create {}: {e}", dir.display()));
    give_to_account(&dir);
    dir
}

/// A TCP port of 127.0.0.1 that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("find a free port")
        .port()
}

/// Starts a process that is told to stop (SIGINT) when the test process dies, however that happens.
///
/// The kernel ties that to the thread that starts it, and a test's thread may end before a server it made: so one
/// thread that lives as long as the process starts them all.
pub fn spawn(mut command: Command) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                // Nobody waits any more only if the test has failed already.
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    // SAFETY: the function only makes an async-signal-safe call and touches nothing but the new process.
    unsafe { command.pre_exec(stop_with_parent) };
    let (answer, result) = mpsc::channel();
    starter
        .send((command, answer))
        .expect("the thread that starts servers");
    result.recv().expect("the thread that starts servers")
}

fn stop_with_parent() -> std::io::Result<()> {
    // SAFETY: with this option prctl takes a signal number and changes only the calling process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) };
    Ok(())
}
