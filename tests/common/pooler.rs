//! PgBouncer in front of a server.

use super::cluster::Cluster;
use super::process::{command, free_port, give_to_account, spawn, temp_dir};
use super::simple::Simple;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A pooler that forwards every database name to one server; stopped when dropped.
pub struct PgBouncer {
    port: u16,
    dir: PathBuf,
    process: Child,
}

impl PgBouncer {
    /// Starts the pooler in transaction mode with at most `pool_size` connections to the server.
    pub fn start(server: &Cluster, pool_size: u32) -> PgBouncer {
        let dir = temp_dir();
        let port = free_port();
        let ini = format!(
            // With auth_type any, the user of the server has to be named.
            "[databases]\n* = host=127.0.0.1 user=postgres port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {pool_size}\n\
             logfile = {dir}/log\npidfile = {dir}/pid\n",
            server.port(),
            dir = dir.display()
        );
        let config = dir.join("pgbouncer.ini");
        std::fs::write(&config, ini).expect("write pgbouncer.ini");
        give_to_account(&config);
        let mut pgbouncer = command(Path::new("/usr/sbin/pgbouncer"));
        pgbouncer
            .arg("-q")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = spawn(pgbouncer).expect("start pgbouncer: run tests/setup.sh");
        let bouncer = PgBouncer { port, dir, process };
        let end = Instant::now() + Duration::from_secs(20);
        while Simple::connect(port, "postgres", "postgres").is_err() {
            assert!(Instant::now() < end, "pgbouncer:\n{}", bouncer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        bouncer
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The pooler's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of pgbouncer:\n{}", self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
