//! A PostgreSQL server for a test, in a folder of its own, at a socket alone.

use super::super::PATIENCE;
use crate::common::Scratch;
use postgres::{Client, Config, NoTls};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The role that owns the tables, which may do nothing else.
pub(super) const ROLE: &str = "mirror";

/// The database of the tables.
pub(super) const DATABASE: &str = "chain";

/// A server, which ends with its owner.
pub(super) struct Server {
    programs: PathBuf,
    /// Who runs it, where that is not who runs the test: PostgreSQL refuses root.
    user: Option<(u32, u32)>,
    folder: Scratch,
    process: Child,
}

/// The folder with the programs of the newest server.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = |folder: &str| {
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = found.map(|entry| entry.path().join("bin")).collect();
        let version = |path: &PathBuf| {
            let name = path.parent()?.file_name()?.to_str()?;
            name.trim_start_matches("postgresql@").parse::<u32>().ok()
        };
        found.sort_by_key(version);
        found.into_iter().rev()
    };
    let mut folders = versions("/usr/lib/postgresql")
        .chain(versions("/opt/homebrew/opt"))
        .chain(std::env::split_paths(&path));
    folders.find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file()))
}

/// A user that is not root, for root.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    of("postgres").or_else(|| of("nobody"))
}

impl Server {
    /// None, with a line for the list of tests that were left out, where there is no server.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A server with settings of its own, and a schema for the role.
    pub(super) fn start_with(settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: no PostgreSQL server; `make test` installs Debian's package postgresql");
            return None;
        };
        let (folder, user) = (Scratch::new(), user());
        let own = folder.folder("postgres");
        if let Some((user, group)) = user {
            std::fs::set_permissions(folder.join(""), PermissionsExt::from_mode(0o755)).unwrap();
            chown(&own, Some(user), Some(group)).unwrap();
        }
        let mut made = as_user(&programs.join("initdb"), user);
        made.args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--locale=C",
            "--encoding=UTF8",
        ]);
        let made = made.arg("--pgdata").arg(own.join("data")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        add_settings(&own, settings);
        let process = begin(&programs, user, &own);
        let server = Self {
            programs,
            user,
            folder,
            process,
        };
        let mut client = server.client_of("postgres", "postgres");
        client
            .batch_execute(&format!("CREATE ROLE {ROLE} LOGIN PASSWORD 'secret'"))
            .unwrap();
        client.batch_execute(&format!("CREATE DATABASE {DATABASE}")).unwrap();
        server
            .client_of("postgres", DATABASE)
            .batch_execute(&format!("CREATE SCHEMA blockmill AUTHORIZATION {ROLE}"))
            .unwrap();
        Some(server)
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    /// The number of the mirror's newest session, if it has one. A session whose client is gone may be
    /// there beside it.
    pub(super) fn session(&self) -> Option<i32> {
        let query = "SELECT pid FROM pg_stat_activity
            WHERE usename = 'mirror' AND application_name = 'blockmill mirror'
            ORDER BY backend_start DESC LIMIT 1";
        self.client_of("postgres", "postgres")
            .query_opt(query, &[])
            .unwrap()
            .map(|row| row.get(0))
    }

    /// Statements as the owner of the server, in a database without tables.
    pub(super) fn administer(&self, statements: &str) {
        self.client_of("postgres", "postgres")
            .batch_execute(statements)
            .unwrap();
    }

    /// The URL for a mirror.
    pub(super) fn url(&self) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgresql://{ROLE}@{folder}/{DATABASE}")
    }

    fn client_of(&self, user: &str, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(self.folder()).user(user).dbname(database);
        if let Some(port) = port(&self.folder()) {
            config.port(port);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match config.connect(NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < end, "{error:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A connection as the owner of the tables.
    pub(super) fn client(&self) -> Client {
        self.client_of(ROLE, DATABASE)
    }

    /// A connection as the owner of the server.
    pub(super) fn superuser(&self) -> Client {
        self.client_of("postgres", DATABASE)
    }

    /// Ends the server as a crash does: without a word to its clients, and without a checkpoint.
    pub(super) fn crash(&mut self) {
        let process = rustix::process::Pid::from_child(&self.process);
        // It may have ended.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::QUIT);
        self.process.wait().unwrap();
    }

    /// Sends a signal to all of its processes.
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let group = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process_group(group, signal).unwrap();
    }

    /// Puts a file into its folder of data.
    pub(super) fn take_file(&self, name: &str, bytes: &[u8]) {
        let path = self.folder().join("data").join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        if let Some((user, group)) = self.user {
            chown(&path, Some(user), Some(group)).unwrap();
        }
    }

    /// Adds settings, which count when it runs again.
    pub(super) fn add_settings(&self, settings: &[&str]) {
        add_settings(&self.folder(), settings);
    }

    /// Has it run again. It is not ready at once.
    pub(super) fn start_again(&mut self) {
        self.process = begin(&self.programs, self.user, &self.folder());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    // A folder that this user may be in.
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn add_settings(folder: &Path, settings: &[&str]) {
    let path = folder.join("data/postgresql.conf");
    let mut lines = std::fs::read_to_string(&path).unwrap();
    settings.iter().for_each(|setting| lines += &format!("{setting}\n"));
    std::fs::write(&path, lines).unwrap();
}

/// The port of a server that listens at one.
fn port(folder: &Path) -> Option<u16> {
    let settings = std::fs::read_to_string(folder.join("data/postgresql.conf")).unwrap_or_default();
    let port = settings.lines().find_map(|line| line.strip_prefix("port="))?;
    port.parse().ok()
}

fn begin(programs: &Path, user: Option<(u32, u32)>, folder: &Path) -> Child {
    let mut command = as_user(&programs.join("postgres"), user);
    // Without syncs: the machine does not crash. Processes that are killed lose nothing written.
    command.args([
        "-F",
        "-c",
        "log_min_messages=panic",
        "-c",
        "shared_buffers=32MB",
        "-c",
        "max_connections=30",
    ]);
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    if port(folder).is_none() {
        command.args(["-c", "listen_addresses="]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().unwrap()
}
