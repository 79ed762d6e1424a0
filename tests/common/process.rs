//! Processes of the servers: whose they are, how they start and end, and what they need.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, OnceLock};
use std::time::{Duration, Instant};

/// The user that servers run as: PostgreSQL refuses root.
#[derive(Clone, Copy)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// User postgres when the tests run as root, otherwise `None`: servers then run as who we are.
pub fn account() -> Option<Account> {
    static ACCOUNT: OnceLock<Option<Account>> = OnceLock::new();
    *ACCOUNT.get_or_init(|| {
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return None;
        }
        let passwd = std::fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
        let entry = passwd
            .lines()
            .find(|line| line.starts_with("postgres:"))
            .expect("no user postgres: run tests/setup.sh");
        let field = |n: usize| {
            entry
                .split(':')
                .nth(n)
                .and_then(|v| v.parse().ok())
                .expect("passwd entry of postgres")
        };
        Some(Account {
            uid: field(2),
            gid: field(3),
        })
    })
}

/// Makes a file or folder belong to the user that servers run as.
pub fn give_to_account(path: &Path) {
    if let Some(account) = account() {
        std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
            .unwrap_or_else(|e| panic!("chown {}: {e}", path.display()));
    }
}

/// A command that runs as the servers' user with an almost empty environment.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/");
    if let Some(account) = account() {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// Sends a signal to a process, for instance to a backend whose pid `pg_backend_pid()` gave.
pub fn process_signal(pid: i32, signal: i32) {
    assert!(pid > 1, "refusing to signal process {pid}");
    // SAFETY: kill only takes numbers; a wrong pid gives an error.
    let result = unsafe { libc::kill(pid, signal) };
    assert_eq!(result, 0, "kill -{signal} {pid}");
}

/// Waits for the end of a process; false if it has not ended in time.
pub fn ended_within(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Runs a command that must succeed.
pub fn run(mut command: Command, what: &str) {
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

/// A number used once in this process.
pub fn next_number() -> u32 {
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
