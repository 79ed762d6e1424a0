//! How a server is to be started, and its data folder.

use super::cluster::Cluster;
use super::install::{bin_dir, cache_dir, shard_bin_dir};
use super::process::{account, command, give_to_account, next_number, run, temp_dir};
use std::path::{Path, PathBuf};

/// How a cluster is to be started.
#[derive(Clone)]
pub struct Setup {
    bin: PathBuf,
    settings: Vec<(String, String)>,
    initdb: Vec<String>,
    files: Vec<(String, String)>,
    environment: Vec<(String, String)>,
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
            environment: Vec::new(),
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

    /// Gives the server an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    /// Gives the server these locales in UTF-8, as `de_DE`; C is always there. None: they cannot be made on this machine.
    pub fn with_locales(self, names: &[&str]) -> Option<Setup> {
        let shelf = cache_dir().join("locale");
        std::fs::create_dir_all(&shelf).ok()?;
        for name in names {
            let locale = shelf.join(format!("{name}.utf8"));
            if locale.exists() {
                continue;
            }
            let fresh = shelf.join(format!("new-{}-{}", std::process::id(), next_number()));
            let made = std::process::Command::new("localedef")
                .args(["-i", name, "-f", "UTF-8"])
                .arg(&fresh)
                .output()
                .ok()?;
            if !made.status.success() {
                return None;
            }
            // Another test may have been faster: then its locale serves as well.
            if std::fs::rename(&fresh, &locale).is_err() {
                let _ = std::fs::remove_dir_all(&fresh);
            }
        }
        Some(self.env("LOCPATH", shelf.to_str()?))
    }

    /// A program of the installation, with the environment of the server.
    pub(super) fn command(&self, name: &str) -> std::process::Command {
        let mut command = command(&self.bin.join(name));
        command.envs(self.environment.iter().cloned());
        command
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
        let mut cluster = Cluster::prepared(self, dir);
        cluster.start_on_free_port();
        cluster
    }

    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
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
        let mut initdb = self.command("initdb");
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
