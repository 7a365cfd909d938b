//! Which database the tables are in: the URL of `--to`, with a password for each of its hosts from
//! a file or the environment. One in the URL is refused: every user of a machine can read command
//! lines.

use crate::error::MirrorError;
use crate::passwords::{password_lines, password_of_line};
use crate::tls::{Roots, Verify, connector};
use crate::witness::Witness;
use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::{Client, Config, Error};
use postgres_openssl::MakeTlsConnector;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::Builder;

/// Parameters that a URL may set otherwise. The mirror writes, so a standby is not its server. A
/// dead connection is found within half a minute, whether or not something was sent.
const DEFAULTS: &str = "application_name=blockmill%20mirror&target_session_attrs=read-write&connect_timeout=10\
    &tcp_user_timeout=30&keepalives_idle=15&keepalives_interval=5&keepalives_retries=3";

/// A host that accepts a connection and then does not answer has this many times
/// `connect_timeout`, which bounds TCP's part alone.
const ANSWER_TIMEOUTS: u32 = 3;

/// Where servers of this machine have their sockets.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

const DEFAULT_PORT: u16 = 5432;

/// Looks a variable of the environment up.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A database.
pub(crate) struct Target {
    /// Its hosts in the order of the URL.
    hosts: Vec<TargetHost>,
    pub(crate) tls: MakeTlsConnector,
    /// What it is called in messages: without a password.
    pub(crate) name: String,
}

#[derive(Debug)]
struct TargetHost {
    name: String,
    config: Config,
    /// `allow` and `prefer` have two.
    ssl_modes: &'static [SslMode],
}

/// The settings of a URL that the client library does not know.
#[derive(Debug, Default)]
struct Settings {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
    passfile: Option<String>,
}

/// What a URL names: the addresses of its hosts, and everything else.
struct Parsed {
    settings: Settings,
    addresses: Config,
    others: Config,
}

fn password_refused() -> MirrorError {
    MirrorError::Usage(
        "the URL of --to has a password, and everybody on this machine can read command lines: take it out, change \
         it, and keep it in ~/.pgpass (host:port:database:user:password, chmod 600) or PGPASSWORD"
            .to_owned(),
    )
}

/// Why a URL is none. The text has nothing of the URL.
fn no_url(error: &Error) -> MirrorError {
    let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
    MirrorError::Usage(format!("--to: {error}{why}"))
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

fn parse(url: &str) -> Result<Parsed, MirrorError> {
    let rest = ["postgresql://", "postgres://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| {
        MirrorError::Usage("--to takes a URL: postgresql://[USER@]HOST[:PORT][,...]/DATABASE[?PARAMETERS]".to_owned())
    })?;
    let (base, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = base.split_once('/').unwrap_or((base, ""));
    let (user, hosts) = match authority.split_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let (mut settings, mut of_hosts, mut others) = (Settings::default(), Vec::new(), vec![DEFAULTS]);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, set) = parameter.split_once('=').unwrap_or((parameter, ""));
        let slot = match key {
            "sslmode" => &mut settings.sslmode,
            "sslrootcert" => &mut settings.sslrootcert,
            "passfile" => &mut settings.passfile,
            // The library takes several hosts for one name.
            "host" => {
                of_hosts.extend(set.split(',').map(|host| format!("host={host}")));
                continue;
            }
            "hostaddr" | "port" => {
                of_hosts.push(parameter.to_owned());
                continue;
            }
            _ => {
                others.push(parameter);
                continue;
            }
        };
        let set = percent_decoded(set);
        *slot = Some(set.ok_or_else(|| MirrorError::Usage(format!("--to: {key} is no text")))?);
    }
    let config = |url: String| url.parse::<Config>().map_err(|error| no_url(&error));
    let others = config(format!("postgresql://{user}/{database}?{}", others.join("&")))?;
    // Before anything of the rest is repeated in a message.
    if others.get_password().is_some() {
        return Err(password_refused());
    }
    Ok(Parsed {
        settings,
        addresses: config(format!("postgresql://{hosts}/?{}", of_hosts.join("&")))?,
        others,
    })
}

fn in_home(variables: Variables<'_>, name: &str) -> Option<PathBuf> {
    Some(Path::new(&variables("HOME")?).join(name))
}

impl Target {
    /// The database that a URL names, with what the environment of this process adds.
    pub(crate) fn new(url: &str, witness: &dyn Witness) -> Result<Self, MirrorError> {
        let variables = |name: &str| std::env::var(name).ok().filter(|set| !set.is_empty());
        Self::with_variables(url, &variables, witness)
    }

    fn with_variables(url: &str, variables: Variables<'_>, witness: &dyn Witness) -> Result<Self, MirrorError> {
        let Parsed {
            settings,
            mut addresses,
            mut others,
        } = parse(url)?;
        if others.get_user().is_none()
            && let Some(user) = variables("USER").or_else(|| variables("LOGNAME"))
        {
            others.user(&user);
        }
        if others.get_options().is_none()
            && let Some(options) = variables("PGOPTIONS")
        {
            others.options(&options);
        }
        if addresses.get_hosts().is_empty() && addresses.get_hostaddrs().is_empty() {
            let port = addresses.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
            let socket = format!(".s.PGSQL.{port}");
            let mut folders = SOCKET_FOLDERS.into_iter();
            let folder = folders.find(|folder| Path::new(folder).join(&socket).exists());
            addresses.host(folder.unwrap_or("localhost"));
        }
        let password_file = settings.passfile.or_else(|| variables("PGPASSFILE")).map(PathBuf::from);
        let passwords = match variables("PGPASSWORD") {
            Some(_) => String::new(),
            None => password_file
                .or_else(|| in_home(variables, ".pgpass"))
                .and_then(|path| password_lines(&path, witness))
                .unwrap_or_default(),
        };
        let (ssl_modes, tls) = tls_of(settings.sslmode.as_deref(), settings.sslrootcert, variables)?;
        let hosts = hosts(&addresses, &others, ssl_modes, |login| {
            variables("PGPASSWORD").or_else(|| passwords.lines().find_map(|line| password_of_line(line, login)))
        })?;
        let names: Vec<&str> = hosts.iter().map(|host| &*host.name).collect();
        let database = others.get_dbname().or(others.get_user()).unwrap_or_default();
        let name = format!("{}/{database}", names.join(","));
        Ok(Self { hosts, tls, name })
    }

    /// Connects to the first host that answers, as libpq does: one that refuses the role is the
    /// last to be tried.
    ///
    /// # Errors
    /// The error of the last host that was tried.
    pub(crate) fn connect(&self) -> Result<Client, MirrorError> {
        let mut failed = None;
        for host in &self.hosts {
            match host.connect(&self.tls) {
                Ok(client) => return Ok(client),
                Err(failure) if failure.is_retried() => failed = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(failed.unwrap_or_else(|| MirrorError::Usage("--to names no host".to_owned())))
    }
}

fn is_without_entry(failure: &MirrorError) -> bool {
    matches!(failure, MirrorError::Postgres(error) if error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION))
}

impl TargetHost {
    /// # Errors
    /// The error of the last mode of TLS, or of the first that was not refused as such.
    fn connect(&self, tls: &MakeTlsConnector) -> Result<Client, MirrorError> {
        let mut refused = None;
        for mode in self.ssl_modes {
            let mut config = self.config.clone();
            config.ssl_mode(*mode);
            match self.answer(config, tls.clone()) {
                Ok(client) => return Ok(client),
                Err(failure) if failure.is_retried() => return Err(failure),
                // With the other mode, pg_hba.conf may have an entry.
                Err(failure) => refused = refused.filter(|earlier| !is_without_entry(earlier)).or(Some(failure)),
            }
        }
        Err(refused.unwrap_or_else(|| MirrorError::Usage("sslmode allows no connection".to_owned())))
    }

    /// Connects on another thread, which is left where the host does not answer: the client library
    /// bounds only the time until TCP is connected.
    fn answer(&self, config: Config, tls: MakeTlsConnector) -> Result<Client, MirrorError> {
        let timeout = config.get_connect_timeout().copied().unwrap_or_default() * ANSWER_TIMEOUTS;
        let (sender, outcome) = channel();
        Builder::new().name("connect".to_owned()).spawn(move || {
            // Nothing waits for it after the timeout.
            let _ = sender.send(config.connect(tls));
        })?;
        match outcome.recv_timeout(timeout) {
            Ok(connected) => Ok(connected?),
            Err(_) => Err(MirrorError::Unanswered(format!(
                "PostgreSQL: {} does not answer within {} s",
                self.name,
                timeout.as_secs()
            ))),
        }
    }
}

/// The hosts of a URL, each with its port and its password.
fn hosts(
    addresses: &Config,
    others: &Config,
    ssl_modes: &'static [SslMode],
    password: impl Fn([&str; 4]) -> Option<String>,
) -> Result<Vec<TargetHost>, MirrorError> {
    let (names, numbers, ports) = (addresses.get_hosts(), addresses.get_hostaddrs(), addresses.get_ports());
    let count = names.len().max(numbers.len());
    let fits = |list: usize, few: usize| list <= few || list == count;
    if !(fits(names.len(), 0) && fits(numbers.len(), 0) && fits(ports.len(), 1)) {
        return Err(MirrorError::Usage(
            "--to: as many hosts, addresses and ports belong together".to_owned(),
        ));
    }
    let user = others.get_user().unwrap_or_default();
    let database = others.get_dbname().unwrap_or(user);
    let host = |index: usize| {
        let mut config = others.clone();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
        config.port(port);
        let number = numbers.get(index);
        if let Some(number) = number {
            config.hostaddr(*number);
        }
        let is_local = matches!(names.get(index), Some(Host::Unix(_)));
        let (name, login) = match names.get(index) {
            Some(Host::Tcp(name)) => {
                config.host(name);
                (name.clone(), name.clone())
            }
            Some(Host::Unix(folder)) => {
                config.host_path(folder);
                let is_default = SOCKET_FOLDERS.iter().any(|default| folder == Path::new(default));
                let name = folder.display().to_string();
                (name.clone(), if is_default { "localhost".to_owned() } else { name })
            }
            None => {
                let name = number.map(ToString::to_string).unwrap_or_default();
                (name.clone(), name)
            }
        };
        if let Some(password) = password([&login, &port.to_string(), database, user]) {
            config.password(password);
        }
        TargetHost {
            name: format!("{name}:{port}"),
            config,
            // Sockets of the system are not encrypted.
            ssl_modes: if is_local { &[SslMode::Disable] } else { ssl_modes },
        }
    };
    Ok((0..count).map(host).collect())
}

/// How connections are encrypted, in the words of libpq: the modes to be tried in turn, and what
/// the server must prove.
fn tls_of(
    mode: Option<&str>,
    roots: Option<String>,
    variables: Variables<'_>,
) -> Result<(&'static [SslMode], MakeTlsConnector), MirrorError> {
    let default = in_home(variables, ".postgresql/root.crt").filter(|path| path.exists());
    let has_roots = roots.is_some() || default.is_some();
    let (modes, verify): (&[SslMode], _) = match mode.unwrap_or("prefer") {
        "disable" => (&[SslMode::Disable], Verify::Nothing),
        "allow" => (&[SslMode::Disable, SslMode::Require], Verify::Nothing),
        "prefer" => (&[SslMode::Prefer, SslMode::Disable], Verify::Nothing),
        "require" if has_roots => (&[SslMode::Require], Verify::Authority),
        "require" => (&[SslMode::Require], Verify::Nothing),
        "verify-ca" => (&[SslMode::Require], Verify::Authority),
        "verify-full" => (&[SslMode::Require], Verify::AuthorityAndName),
        other => {
            let words = "disable, allow, prefer, require, verify-ca, verify-full";
            return Err(MirrorError::Usage(format!("sslmode is one of {words}, not {other}")));
        }
    };
    let roots = match roots {
        Some(word) if word == "system" => Roots::System,
        Some(path) => Roots::File(path.into()),
        None => default.map_or(Roots::System, Roots::File),
    };
    Ok((modes, connector(verify, &roots)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Mute;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    fn target(url: &str, variables: &[(&str, &str)]) -> Result<Target, MirrorError> {
        let variables = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, set)| (*set).to_owned())
        };
        Target::with_variables(url, &variables, &Mute)
    }

    /// The names of the hosts of a target, each with its password.
    fn passwords(url: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let password = |host: &TargetHost| {
            let password = host.config.get_password().unwrap_or_default();
            String::from_utf8_lossy(password).into_owned()
        };
        let hosts = target(url, variables).unwrap().hosts;
        hosts.iter().map(|host| (host.name.clone(), password(host))).collect()
    }

    #[test]
    fn each_host_has_its_own_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwords");
        fs::write(
            &file,
            "one:*:d:u:first\n10.0.0.2:6000:*:*:second\nlocalhost:*:*:*:local\n",
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let of_file = [("PGPASSFILE", file.to_str().unwrap())];
        let check = |url: &str, wanted: &[(&str, &str)]| {
            let wanted: Vec<_> = wanted
                .iter()
                .map(|(host, set)| ((*host).to_owned(), (*set).to_owned()))
                .collect();
            assert_eq!(passwords(url, &of_file), wanted, "{url}");
        };
        check(
            "postgresql://u@one,two,10.0.0.2:6000,%2Ftmp,%2Fsrv/d",
            &[
                ("one:5432", "first"),
                ("two:5432", ""),
                ("10.0.0.2:6000", "second"),
                ("/tmp:5432", "local"),
                ("/srv:5432", ""),
            ],
        );
        // The name counts, not the address.
        check(
            "postgresql://u@/d?host=one,two&hostaddr=10.0.0.1,10.0.0.2&port=6000",
            &[("one:6000", "first"), ("two:6000", "")],
        );
        check(
            "postgresql:///e?user=%75&hostaddr=10.0.0.1,10.0.0.2&port=1,6000",
            &[("10.0.0.1:1", ""), ("10.0.0.2:6000", "second")],
        );
        let all = passwords(
            "postgresql://u@one,two/d",
            &[&of_file[..], &[("PGPASSWORD", "p")]].concat(),
        );
        assert!(all.iter().all(|(_, password)| password == "p"), "{all:?}");
    }

    #[test]
    fn the_url_counts_more_than_what_is_usual() {
        let found = target("postgresql://me@h/d?tcp_user_timeout=2&target_session_attrs=any", &[]).unwrap();
        let config = &found.hosts[0].config;
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(2)));
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(15));
        assert_eq!(config.get_application_name(), Some("blockmill mirror"));
        assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("d")));
        // Of the variables of psql these count.
        let found = target(
            "postgresql://h",
            &[("USER", "you"), ("PGOPTIONS", "-c a=b"), ("PGUSER", "other")],
        )
        .unwrap();
        let config = &found.hosts[0].config;
        assert_eq!((config.get_user(), config.get_options()), (Some("you"), Some("-c a=b")));
        assert_eq!(found.name, "h:5432/you");
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "postgresql://me:hunter2@h/d",
            "postgresql://me:hunter2@h:port/d",
            "postgresql://h/d?user=me&password=hunter2",
            "postgresql://h/d?password=hunter2&sslmode=disable",
        ] {
            let Err(MirrorError::Usage(text)) = target(url, &[]).map(|target| target.name) else {
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
            ("postgresql://h/d?service=chain", "unknown option"),
            ("postgresql://h:port/d", "--to"),
            ("postgresql://a,b:1,c:2/d?port=1,2", "--to"),
            ("postgresql://a,b/d?hostaddr=10.0.0.1", "belong together"),
            (
                "postgresql://h/d?sslmode=verify-full&sslrootcert=/nonexistent/root.crt",
                "root.crt",
            ),
        ] {
            let Err(failure) = target(url, &roots) else {
                panic!("{url} is taken")
            };
            let failure = failure.to_string();
            assert!(
                failure.contains(word) && !failure.contains("hunter2"),
                "{url}: {failure}"
            );
        }
    }

    #[test]
    fn words_of_tls_mean_what_they_mean_for_libpq() {
        for (url, modes) in [
            ("postgresql://h/d", &[SslMode::Prefer, SslMode::Disable][..]),
            ("postgresql://h/d?sslmode=allow", &[SslMode::Disable, SslMode::Require]),
            ("postgresql://h/d?sslmode=disable", &[SslMode::Disable]),
            ("postgresql://h/d?sslmode=require", &[SslMode::Require]),
            // A socket of the system.
            ("postgresql://%2Ftmp/d?sslmode=require", &[SslMode::Disable]),
        ] {
            assert_eq!(target(url, &[]).unwrap().hosts[0].ssl_modes, modes, "{url}");
        }
    }
}
