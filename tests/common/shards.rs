//! Several servers at once, and the SQL that tells a coordinator of them.

use super::cluster::Cluster;
use super::setup::Setup;

/// Servers named `shard1`, `shard2`, … on the coordinator.
pub struct Shards(Vec<Cluster>);

impl Shards {
    /// Starts `count` servers of the version under test, at the same time.
    pub fn start(count: usize) -> Shards {
        Shards::start_with(count, &Setup::new())
    }

    /// Starts `count` servers with given settings.
    pub fn start_with(count: usize, setup: &Setup) -> Shards {
        let starting: Vec<_> = (0..count)
            .map(|_| {
                let setup = setup.clone();
                std::thread::spawn(move || setup.start())
            })
            .collect();
        Shards(
            starting
                .into_iter()
                .map(|thread| thread.join().expect("start a shard"))
                .collect(),
        )
    }

    /// Creates the extension, a server for each shard and a mapping for the current user on the coordinator.
    ///
    /// `options` is added to each server's list: empty, or as `batch_size '7', fetch_size '2'`.
    pub fn attach(&self, coordinator: &Cluster, options: &str) {
        let mut script = "CREATE EXTENSION IF NOT EXISTS shard_fdw;\n".to_string();
        for (number, shard) in self.0.iter().enumerate() {
            let name = format!("shard{}", number + 1);
            script.push_str(&create_server(&name, shard.port(), options));
        }
        coordinator.sql(&script);
    }

    /// Runs statements on every shard.
    pub fn sql(&self, statements: &str) {
        for shard in &self.0 {
            shard.sql(statements);
        }
    }

    /// The single value of a query on each shard, as text.
    pub fn values(&self, query: &str) -> Vec<String> {
        self.0.iter().map(|shard| shard.value(query)).collect()
    }
}

impl std::ops::Deref for Shards {
    type Target = Vec<Cluster>;

    fn deref(&self) -> &Vec<Cluster> {
        &self.0
    }
}

impl std::ops::DerefMut for Shards {
    fn deref_mut(&mut self) -> &mut Vec<Cluster> {
        &mut self.0
    }
}

/// The statements that create a server on a port of 127.0.0.1 (a shard's or a proxy's) and a mapping for the current
/// user, who is postgres there too.
///
/// With TRANSPORT in the environment, that is the option `transport` of servers that are not given one.
pub fn create_server(name: &str, port: u16, options: &str) -> String {
    let mut more = if options.is_empty() {
        String::new()
    } else {
        format!(", {options}")
    };
    match std::env::var("TRANSPORT") {
        Ok(transport) if !options.contains("transport") => {
            more.push_str(&format!(", transport '{transport}'"));
        }
        _ => {}
    }
    format!(
        "CREATE SERVER {name} FOREIGN DATA WRAPPER shard_fdw OPTIONS (host '127.0.0.1', port '{port}', \
         dbname 'postgres'{more});\n\
         CREATE USER MAPPING FOR CURRENT_USER SERVER {name} OPTIONS (user 'postgres');\n"
    )
}
