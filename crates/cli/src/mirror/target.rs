//! Which database the tables are in: a URL. A password comes from a file or the environment, and is
//! refused in the URL: the command line is everybody's to read.

use super::files::{self, Login};
use super::tls::{Roots, Tls, Verify};
use crate::failure::Failure;
use postgres::config::{Host, SslMode};
use postgres::{Config, Error};
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for a connection to come about, unless something else is set.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that says nothing for so long is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// What is sent must arrive within this time.
const TCP_TIMEOUT: Duration = Duration::from_secs(60);

/// Where servers of this machine have their sockets.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

const DEFAULT_PORT: u16 = 5432;

/// Looks a variable of the environment up.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A database.
#[derive(Debug)]
pub(crate) struct Target {
    pub(super) config: Config,
    pub(super) tls: Tls,
    /// What it is called in messages: without a password.
    pub(super) name: String,
}

/// What the URL says that the client library does not know, and what comes in its place.
#[derive(Debug, Default)]
struct Settings {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
    passfile: Option<String>,
}

fn password_refused() -> Failure {
    Failure::Usage(
        "the URL of --to has a password, and everybody on this machine can read command lines: take it out, change \
         it, and keep it in ~/.pgpass (host:port:database:user:password, chmod 600) or PGPASSWORD"
            .to_owned(),
    )
}

/// Why a URL is none. The text has nothing of the URL.
fn no_url(error: &Error) -> Failure {
    let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
    Failure::Usage(format!("--to: {error}{why}"))
}

/// The digits of hex after a `%` become bytes.
fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

impl Settings {
    /// Takes a setting that is known here.
    fn slot(&mut self, key: &str) -> Option<&mut Option<String>> {
        match key {
            "sslmode" => Some(&mut self.sslmode),
            "sslrootcert" => Some(&mut self.sslrootcert),
            "passfile" => Some(&mut self.passfile),
            _ => None,
        }
    }

    /// Reads a URL. What the library knows is in the configuration.
    fn read(url: &str) -> Result<(Self, Config), Failure> {
        if !["postgresql://", "postgres://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            let text = "--to takes a URL: postgresql://[USER@]HOST[:PORT]/DATABASE";
            return Err(Failure::Usage(text.to_owned()));
        }
        let (base, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut own, mut others) = (Self::default(), Vec::new());
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, set) = parameter.split_once('=').unwrap_or((parameter, ""));
            match own.slot(key) {
                Some(slot) => {
                    let set = percent_decoded(set);
                    *slot = Some(set.ok_or_else(|| Failure::Usage(format!("--to: {key} is no text")))?);
                }
                None => others.push(parameter),
            }
        }
        let config: Config = format!("{base}?{}", others.join("&"))
            .parse()
            .map_err(|error| no_url(&error))?;
        match config.get_password() {
            Some(_) => Err(password_refused()),
            None => Ok((own, config)),
        }
    }
}

fn in_home(variables: Variables<'_>, name: &str) -> Option<PathBuf> {
    Some(Path::new(&variables("HOME")?).join(name))
}

impl Target {
    /// The database that a URL names, and the environment of this process.
    pub(crate) fn new(url: &str) -> Result<Self, Failure> {
        Self::with_variables(url, &|name| std::env::var(name).ok().filter(|set| !set.is_empty()))
    }

    fn with_variables(url: &str, variables: Variables<'_>) -> Result<Self, Failure> {
        let (own, mut config) = Settings::read(url)?;
        if let (None, Some(options)) = (config.get_options(), variables("PGOPTIONS")) {
            config.options(&options);
        }
        if let Some(password) = variables("PGPASSWORD") {
            config.password(password);
        }
        with_defaults(&mut config, variables);
        if config.get_password().is_none() {
            let file = own
                .passfile
                .or_else(|| variables("PGPASSFILE"))
                .map(PathBuf::from)
                .or_else(|| in_home(variables, ".pgpass"));
            if let Some(password) = file.and_then(|file| files::password(&file, login(&config).as_login())) {
                config.password(password);
            }
        }
        let roots = own.sslrootcert.map(PathBuf::from);
        let tls = tls_of(&mut config, own.sslmode.as_deref(), roots, variables)?;
        let OwnLogin([host, port, database, _]) = login(&config);
        Ok(Self {
            config,
            tls,
            name: format!("{host}:{port}/{database}"),
        })
    }
}

fn with_defaults(config: &mut Config, variables: Variables<'_>) {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let folder = SOCKET_FOLDERS.into_iter().find(|folder| {
            let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
            Path::new(folder).join(format!(".s.PGSQL.{port}")).exists()
        });
        config.host(folder.unwrap_or("localhost"));
    }
    if config.get_user().is_none()
        && let Some(user) = variables("USER").or_else(|| variables("LOGNAME"))
    {
        config.user(&user);
    }
    if config.get_application_name().is_none() {
        config.application_name("blockmill mirror");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    config.keepalives_idle(KEEPALIVE_IDLE);
    config.tcp_user_timeout(TCP_TIMEOUT);
}

/// Host, port, database and user, as a password file names them.
struct OwnLogin([String; 4]);

impl OwnLogin {
    fn as_login(&self) -> Login<'_> {
        let Self([host, port, database, user]) = self;
        Login([host, port, database, user])
    }
}

fn login(config: &Config) -> OwnLogin {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(folder)) if SOCKET_FOLDERS.iter().any(|default| folder == Path::new(default)) => {
            "localhost".to_owned()
        }
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => {
            let address = config.get_hostaddrs().first();
            address.map(ToString::to_string).unwrap_or_default()
        }
    };
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    OwnLogin([host, port.to_string(), database.to_owned(), user.to_owned()])
}

/// How connections are encrypted: the words and their meanings are those of libpq.
fn tls_of(
    config: &mut Config,
    mode: Option<&str>,
    roots: Option<PathBuf>,
    variables: Variables<'_>,
) -> Result<Tls, Failure> {
    let is_given = roots.is_some();
    let roots = roots.or_else(|| in_home(variables, ".postgresql/root.crt").filter(|path| path.exists()));
    let (mode, verify) = match mode.unwrap_or("prefer") {
        "disable" => (SslMode::Disable, Verify::Nothing),
        // A server without TLS is taken, too: nothing is proved either way.
        "allow" | "prefer" => (SslMode::Prefer, Verify::Nothing),
        "require" if roots.is_some() => (SslMode::Require, Verify::Authority),
        "require" => (SslMode::Require, Verify::Nothing),
        "verify-ca" => (SslMode::Require, Verify::Authority),
        "verify-full" => (SslMode::Require, Verify::AuthorityAndName),
        other => {
            let words = "disable, prefer, require, verify-ca, verify-full";
            return Err(Failure::Usage(format!("sslmode is one of {words}, not {other}")));
        }
    };
    // The system's own sockets are not encrypted.
    let is_local = |host: &Host| matches!(host, Host::Unix(_));
    let hosts = config.get_hosts();
    let mode = match !hosts.is_empty() && hosts.iter().all(is_local) {
        true => SslMode::Disable,
        false => mode,
    };
    config.ssl_mode(mode);
    let roots = match roots {
        Some(path) if is_given && path == Path::new("system") => Roots::System,
        Some(path) => Roots::File(path),
        None => Roots::System,
    };
    match mode {
        SslMode::Disable => Tls::new(Verify::Nothing, &Roots::System),
        _ => Tls::new(verify, &roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, variables: &[(&str, &str)]) -> Result<Target, Failure> {
        Target::with_variables(url, &|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, set)| (*set).to_owned())
        })
    }

    /// What a target is, in the order of a password file, with its password.
    fn found(url: &str, variables: &[(&str, &str)]) -> ([String; 4], Option<String>) {
        let target = target(url, variables).unwrap();
        let password = target.config.get_password();
        let password = password.map(|password| String::from_utf8_lossy(password).into_owned());
        (login(&target.config).0, password)
    }

    #[test]
    fn a_password_comes_from_the_environment_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let passwords = folder.path().join("passwords");
        std::fs::write(&passwords, "h:*:*:*:of-host\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&passwords, mode).unwrap();
        let variables = [("PGPASSFILE", passwords.to_str().unwrap()), ("PGUSER", "other")];
        let texts = |texts: [&str; 4]| texts.map(str::to_owned);
        assert_eq!(
            found("postgres://u@h:7000/e", &variables),
            (texts(["h", "7000", "e", "u"]), Some("of-host".to_owned()))
        );
        assert_eq!(
            found(
                "postgresql://o/d?user=%61b",
                &[&variables[..], &[("PGPASSWORD", "p")]].concat()
            ),
            (texts(["o", "5432", "d", "ab"]), Some("p".to_owned()))
        );
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "postgresql://me:hunter2@h/d",
            "postgresql://h/d?user=me&password=hunter2",
            "postgresql://h/d?password=hunter2&sslmode=disable",
        ] {
            let Err(Failure::Usage(text)) = target(url, &[]) else {
                panic!("{url} is taken");
            };
            assert!(text.contains(".pgpass") && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        let roots = [("HOME", "/nonexistent")];
        for (url, word) in [
            ("host=h password=hunter2", "takes a URL"),
            ("mysql://h/d", "takes a URL"),
            ("postgresql://h/d?sslmode=maybe", "sslmode is one of"),
            ("postgresql://h/d?nothing=1", "unknown option"),
            ("postgresql://h:port/d", "--to"),
            (
                "postgresql://h/d?sslmode=verify-full&sslrootcert=/nonexistent/root.crt",
                "root.crt",
            ),
        ] {
            let failure = target(url, &roots).unwrap_err().to_string();
            assert!(
                failure.contains(word) && !failure.contains("hunter2"),
                "{url}: {failure}"
            );
        }
        assert!(target("postgresql://h/d?service=none", &roots).is_err());
    }

    #[test]
    fn words_of_tls_mean_what_they_mean_for_libpq() {
        for (url, mode) in [
            ("postgresql://h/d", SslMode::Prefer),
            ("postgresql://h/d?sslmode=disable", SslMode::Disable),
            ("postgresql://h/d?sslmode=require", SslMode::Require),
            // A socket of the system.
            ("postgresql://%2Ftmp/d?sslmode=require", SslMode::Disable),
        ] {
            assert_eq!(target(url, &[]).unwrap().config.get_ssl_mode(), mode, "{url}");
        }
    }
}
