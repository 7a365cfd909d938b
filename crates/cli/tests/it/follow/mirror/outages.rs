//! What fails for a while, at the server and on the way to it: each error is retried, or ends the
//! call with a status, in the first load and in what follows.

use super::super::{PATIENCE, Place, Running, stop};
use super::limits::{connect, connected, wait_for_tip};
use super::server::{DATABASE, ROLE, Server};
use super::{TABLES, begin, check_table, kill, log_of, mirror_command, mirror_to};
use crate::common::{Scratch, blockmill, run};
use crate::follow::node::Node;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a mirror logs before each further attempt.
const AGAIN: &str = "it is tried again";

/// Has the server fail once, with a code, where a mirror changes a table of its own.
const FAULT: &str = "
    CREATE TABLE public.fault (code text); INSERT INTO public.fault VALUES ('00000');
    CREATE SEQUENCE public.attempts;
    CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        DECLARE wanted text;
        BEGIN
            SELECT code INTO wanted FROM public.fault;
            -- No error takes a number of a sequence back.
            IF nextval('public.attempts') = 1 THEN RAISE EXCEPTION 'a fault' USING ERRCODE = wanted; END IF;
            RETURN NEW;
        END $$;
    CREATE FUNCTION public.arm() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF to_regclass('blockmill.mirror_loaded') IS NOT NULL
                    AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'fail') THEN
                CREATE TRIGGER fail BEFORE INSERT ON blockmill.mirror_loaded
                    FOR EACH ROW EXECUTE FUNCTION public.fail();
            END IF;
        END $$;
    CREATE EVENT TRIGGER arm ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.arm();
    ALTER SEQUENCE public.attempts RESTART";

const RETRIED: [&str; 26] = [
    "08000", "08003", "08006", "08P01", "25006", "25P03", "25P04", "40001", "40003", "40P01", "53000", "53100",
    "53200", "53300", "53400", "55000", "55006", "55P03", "57014", "57P01", "57P02", "57P03", "57P04", "57P05",
    "58000", "58030",
];

/// With the status of the call.
const ENDING: [(&str, i32); 13] = [
    ("28000", 2),
    ("28P01", 2),
    ("3D000", 2),
    ("42501", 2),
    ("22023", 2),
    ("22P05", 2),
    ("23505", 3),
    ("42P01", 3),
    ("0A000", 4),
    ("54000", 4),
    ("58P01", 4),
    ("P0001", 4),
    ("XX001", 4),
];

#[test]
fn each_error_is_retried_or_ends_the_call() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, mut node) = connected(&scratch);
    let mut admin = server.superuser();
    admin.batch_execute(FAULT).unwrap();
    let mut mirror_with = |code: &str| {
        let fault = format!("UPDATE public.fault SET code = '{code}'; ALTER SEQUENCE public.attempts RESTART");
        admin.batch_execute(&fault).unwrap();
        run(&mut mirror_command(&place.data, &server))
    };
    // In the first load, on one of its connections.
    for code in ["57P01", "53100", "40P01", "25006"] {
        mirror_with(code).ends_with(0).says(&["a fault", AGAIN]);
        server
            .superuser()
            .batch_execute("DROP SCHEMA blockmill CASCADE; CREATE SCHEMA blockmill AUTHORIZATION mirror")
            .unwrap();
    }
    mirror_with("54000").ends_with(4).says(&["a fault"]);
    mirror_with("57P01").ends_with(0);
    let trigger = "CREATE TRIGGER later BEFORE UPDATE ON blockmill.mirror FOR EACH ROW EXECUTE FUNCTION public.fail()";
    server.superuser().batch_execute(trigger).unwrap();
    for code in RETRIED {
        node.mine();
        connect(&place);
        let retried = mirror_with(code).ends_with(0).says(&["a fault", AGAIN]);
        assert!(retried.stdout.contains(&node.hash()), "{code}: {retried:?}");
    }
    for (code, status) in ENDING {
        node.mine();
        connect(&place);
        let ended = mirror_with(code).ends_with(status).says(&["a fault"]);
        assert!(!ended.stderr.contains(AGAIN), "{code}: {ended:?}");
        run(&mut mirror_command(&place.data, &server)).ends_with(0);
    }
    check_table(&mut server.client(), &place.data, "coins");
}

/// A mirror that follows, with its node.
struct Followed {
    server: Server,
    place: Place,
    node: Node,
    mirror: Running,
}

impl Followed {
    fn attempts(&self) -> usize {
        let log = std::fs::read_to_string(log_of(&self.place)).unwrap();
        log.lines().filter(|line| line.contains(AGAIN)).count()
    }

    fn wait(&mut self, what: &str, mut is_there: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_there(self) {
            let log = std::fs::read_to_string(log_of(&self.place)).unwrap();
            assert!(self.mirror.0.try_wait().unwrap().is_none(), "{what}: {log}");
            assert!(Instant::now() < end, "{what}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the session of the mirror while something keeps it from another one, and connects a
    /// block. Waits for a number of attempts that fail.
    fn fails_until(&mut self, disable: &str, enable: &str, attempts: usize) {
        let before = self.attempts();
        self.server.administer(disable);
        self.server
            .administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mirror'");
        self.node.mine();
        connect(&self.place);
        self.wait(disable, |followed| followed.attempts() >= before + attempts);
        self.server.administer(enable);
        wait_for_tip(&self.server, &self.node);
    }
}

#[test]
fn a_mirror_outlives_its_sessions() {
    let Some(mut server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, node) = connected(&scratch);
    // It may begin before its server does.
    server.crash();
    let mirror = begin(&place, &server);
    let mut followed = Followed {
        server,
        place,
        node,
        mirror,
    };
    followed.wait("no server", |followed| followed.attempts() > 0);
    followed.server.start_again();
    wait_for_tip(&followed.server, &followed.node);
    for (disable, enable) in [
        (
            "ALTER ROLE mirror SET default_transaction_read_only = on",
            "ALTER ROLE mirror RESET default_transaction_read_only",
        ),
        (
            "ALTER ROLE mirror CONNECTION LIMIT 0",
            "ALTER ROLE mirror CONNECTION LIMIT -1",
        ),
        (
            "ALTER DATABASE chain ALLOW_CONNECTIONS false",
            "ALTER DATABASE chain ALLOW_CONNECTIONS true",
        ),
    ] {
        followed.fails_until(disable, enable, 2);
    }
    // Limits of time for this role end no session, and no statement.
    followed.server.administer(
        "ALTER ROLE mirror SET idle_session_timeout = '300ms'; ALTER ROLE mirror SET statement_timeout = '1s';
            ALTER ROLE mirror SET idle_in_transaction_session_timeout = '300ms'; ALTER ROLE mirror SET lock_timeout = '1ms'",
    );
    followed.fails_until("SELECT 1", "SELECT 1", 1);
    let (session, before) = (followed.server.session(), followed.attempts());
    std::thread::sleep(Duration::from_millis(900));
    followed.node.mine();
    connect(&followed.place);
    wait_for_tip(&followed.server, &followed.node);
    assert_eq!((followed.server.session(), followed.attempts()), (session, before));
    // A statement is cancelled while it waits for a lock.
    let mut admin = followed.server.superuser();
    let mut lock = admin.transaction().unwrap();
    lock.batch_execute("LOCK TABLE blockmill.coins").unwrap();
    followed.node.mine();
    connect(&followed.place);
    let cancel =
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'mirror' AND wait_event_type = 'Lock'";
    followed.wait("no cancel", |followed| {
        followed.server.administer(cancel);
        followed.attempts() > before
    });
    lock.rollback().unwrap();
    wait_for_tip(&followed.server, &followed.node);
    // The server ends at once, and recovers.
    let before = followed.attempts();
    followed.server.crash();
    followed.node.mine();
    connect(&followed.place);
    followed.wait("no crash", |followed| followed.attempts() > before);
    followed.server.start_again();
    wait_for_tip(&followed.server, &followed.node);
    check_table(&mut followed.server.client(), &followed.place.data, "coins");
    assert_eq!(stop(followed.mirror), Some(0));
}

/// Without `--follow`, a server that is not there ends the call.
#[test]
fn a_first_connection_that_fails_ends_a_call() {
    let Some(mut server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, _) = connected(&scratch);
    server.crash();
    run(&mut mirror_command(&place.data, &server))
        .ends_with(4)
        .says(&["error connecting to server"]);
    server.start_again();
    drop(server.client());
    server.administer("ALTER ROLE mirror CONNECTION LIMIT 0");
    run(&mut mirror_command(&place.data, &server))
        .ends_with(4)
        .says(&["too many connections"]);
}

/// A lock of a session that cannot be judged is waited for. The session stays.
#[test]
fn a_lock_of_another_place_is_waited_for() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, _) = connected(&scratch);
    let mut other = server.client();
    let lock = |function: &str| format!("SELECT {function}(1651338545, hashtext('blockmill'))");
    other.batch_execute(&lock("pg_advisory_lock")).unwrap();
    let mut command = mirror_command(&place.data, &server);
    let mut mirror = Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()));
    std::thread::sleep(Duration::from_millis(700));
    assert!(mirror.0.try_wait().unwrap().is_none());
    other.batch_execute(&lock("pg_advisory_unlock")).unwrap();
    assert_eq!(mirror.0.wait().unwrap().code(), Some(0));
}

/// A link between two namespaces, which ends with its owner.
struct Link(String);

impl Link {
    /// None, with a line for the list of tests that were left out, where none can be made.
    fn new() -> Option<Self> {
        let link = Self(format!("bm{}", std::process::id()));
        let name = &link.0;
        let made = [
            format!("netns add {name}"),
            format!("link add {name} type veth peer name {name}p"),
            format!("link set {name}p netns {name}"),
            format!("addr add {}/30 dev {name}", Self::ADDRESS),
            format!("link set {name} up"),
            format!("-n {name} addr add 198.18.77.2/30 dev {name}p"),
            format!("-n {name} link set {name}p up"),
        ];
        if made.iter().all(|words| ip(words)) {
            return Some(link);
        }
        eprintln!("skipped: no network namespace can be made (root, and iproute2)");
        None
    }

    /// That of this side.
    const ADDRESS: &str = "198.18.77.1";

    /// The side of the mirror, so that no packet waits for the link.
    fn set(&self, state: &str) {
        let name = &self.0;
        assert!(ip(&format!("-n {name} link set {name}p {state}")));
    }

    /// Whether the other side has a connection to a port, and not only what is left of one.
    fn has_connection(&self, port: u16) -> bool {
        let mut command = self.across(Command::new("cat").arg("/proc/net/tcp"));
        let output = command.output().unwrap();
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_open =
            |line: &str| line.contains(&format!(":{port:04X} ")) && !line.contains(&format!(":{port:04X} 06 "));
        table.lines().any(is_open)
    }

    /// Has a command run on the other side.
    fn across(&self, command: &Command) -> Command {
        let mut across = Command::new("ip");
        across
            .args(["netns", "exec", &self.0])
            .arg(command.get_program())
            .args(command.get_args());
        across
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.0));
        ip(&format!("netns del {}", self.0));
    }
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// The server does not notice that its client is gone: its own keepalives take half a minute.
#[test]
fn a_session_on_a_dead_link_is_ended_by_the_next_one() {
    let Some(link) = Link::new() else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(mut server) = Server::start_with(&["listen_addresses='*'", &format!("port={port}")]) else {
        return;
    };
    server.crash();
    server.take_file(
        "pg_hba.conf",
        b"local all all trust\nhost all all 198.18.77.0/30 trust\n",
    );
    server.start_again();
    drop(server.client());
    let scratch = Scratch::new();
    let (place, node) = connected(&scratch);
    let begin = |place: &Path, log: &Path, follow: &[&str]| {
        let timeouts = "tcp_user_timeout=2&keepalives_idle=1&keepalives_interval=1&connect_timeout=1";
        let url = format!("postgresql://{ROLE}@{}:{port}/{DATABASE}?{timeouts}", Link::ADDRESS);
        let mut command = mirror_to(place, &url);
        command.args(follow);
        let log = File::options().create(true).append(true).open(log).unwrap();
        Running::of(link.across(&command).stdout(Stdio::null()).stderr(log))
    };
    let log = log_of(&place);
    let mirror = begin(&place.data, &log, &["--follow"]);
    let mut followed = Followed {
        server,
        place,
        node,
        mirror,
    };
    followed.wait("no tip", |followed| followed.server.session().is_some());
    wait_for_tip(&followed.server, &followed.node);
    let session = followed.server.session();
    link.set("down");
    followed.node.mine();
    connect(&followed.place);
    followed.wait("still connected", |followed| followed.attempts() > 0);
    assert_eq!(followed.server.session(), session);
    link.set("up");
    wait_for_tip(&followed.server, &followed.node);
    assert_ne!(followed.server.session(), session);
    // Another process ends the session of one that was killed.
    link.set("down");
    kill(&mut followed.mirror);
    // Its system sends the end of the connection again until the timeout.
    let end = Instant::now() + PATIENCE;
    while link.has_connection(port) {
        assert!(Instant::now() < end, "the connection stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    link.set("up");
    let mut next = begin(&followed.place.data, &log, &[]);
    assert_eq!(next.0.wait().unwrap().code(), Some(0));
}

/// Proxy that keeps the server's side of a connection open after its client has closed.
fn forward(listener: &TcpListener, socket: &Path) {
    while let Ok((client, _)) = listener.accept() {
        let server = UnixStream::connect(socket).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let (mut from_server, mut to_client) = (server, client);
        std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
    }
}

#[test]
fn a_session_of_a_process_that_is_gone_is_ended() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, node) = connected(&scratch);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = server.folder().join(".s.PGSQL.5432");
    std::thread::spawn(move || forward(&listener, &socket));
    let mut command = mirror_to(&place.data, &format!("postgresql://{ROLE}@127.0.0.1:{port}/{DATABASE}"));
    let command = command.arg("--follow").stdout(Stdio::null()).stderr(Stdio::null());
    let mut mirror = Running::of(command);
    wait_for_tip(&server, &node);
    let session = server.session();
    kill(&mut mirror);
    assert!(session.is_some() && server.session() == session);
    let ended = format!("session {} of process {}, whose", session.unwrap(), mirror.0.id());
    run(&mut mirror_command(&place.data, &server))
        .ends_with(0)
        .says(&[&ended, "it is ended"]);
    assert_ne!(server.session(), session);
}

/// The set may be ahead of what is durable, and a power loss takes that back.
#[test]
fn a_load_begins_anew_with_the_durable_set() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, mut node) = connected(&scratch);
    run(&mut mirror_command(&place.data, &server)).ends_with(0);
    let (durable, mark) = (node.hash(), place.data.join("commit.dat"));
    let bytes = std::fs::read(&mark).unwrap();
    node.mine();
    connect(&place);
    std::fs::write(&mark, bytes).unwrap();
    server
        .client()
        .batch_execute("UPDATE blockmill.mirror SET step = 'coins', block_hash = sha256('gone')")
        .unwrap();
    let anew = run(&mut mirror_command(&place.data, &server))
        .ends_with(0)
        .says(&["it begins anew"]);
    assert!(anew.stdout.contains(&durable), "{anew:?}");
}

/// The directory is made again from blocks, and is not as far yet.
#[test]
fn a_directory_behind_the_tables_is_waited_for() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, node) = connected(&scratch);
    let mirror = || run(mirror_command(&place.data, &server).args(["--tables", TABLES]));
    mirror().ends_with(0);
    std::fs::remove_dir_all(&place.data).unwrap();
    let mut first = blockmill();
    first
        .args(["connect", "--network", "regtest", "--stop-at-height", "50", "--blocks"])
        .arg(&place.blocks);
    run(first.arg("--data").arg(&place.data)).ends_with(0);
    let check = || {
        let behind = mirror().ends_with(2).says(&["at height 50", "behind the tables"]);
        assert!(!behind.stderr.contains("DROP"), "{behind:?}");
    };
    check();
    // So is a load that had all coins.
    server
        .client()
        .batch_execute("UPDATE blockmill.mirror SET step = 'blocks'")
        .unwrap();
    check();
    server
        .client()
        .batch_execute("UPDATE blockmill.mirror SET step = 'follow'")
        .unwrap();
    let mirror = begin(&place, &server);
    let mut followed = Followed {
        server,
        place,
        node,
        mirror,
    };
    followed.wait("does not wait", |followed| followed.attempts() > 0);
    connect(&followed.place);
    followed.node.mine();
    connect(&followed.place);
    wait_for_tip(&followed.server, &followed.node);
    assert_eq!(stop(followed.mirror), Some(0));
}

/// The first host accepts connections and does not answer.
#[test]
fn a_host_that_does_not_answer_is_passed_over() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, _) = connected(&scratch);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let mirror = |hosts: &str| {
        let url = format!("postgresql://{ROLE}@{hosts}/{DATABASE}?connect_timeout=1");
        run(&mut mirror_to(&place.data, &url))
    };
    mirror(&silent).ends_with(4).says(&["127.0.0.1:", "does not answer"]);
    let folder = server.folder().display().to_string().replace('/', "%2F");
    mirror(&format!("{silent},{folder}")).ends_with(0);
}

/// A server that asks for a password in clear. Returns what it got.
fn password_sent_to(listener: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - length.len()];
    stream.read_exact(&mut rest).unwrap();
    stream.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
    let mut sent = Vec::new();
    let _ = stream.read_to_end(&mut sent);
    sent
}

#[test]
fn a_host_gets_no_password_of_another_one() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let passwords = scratch.write("passwords", b"localhost:1:*:*:hunter2\n");
    std::fs::set_permissions(&passwords, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let url = format!("postgresql://me@localhost:1,127.0.0.1:{port}/d?sslmode=disable");
    let mut command = mirror_to(&scratch.join("data"), &url);
    command.env("PGPASSFILE", &passwords).env_remove("PGPASSWORD");
    let (sent, refused) = std::thread::scope(|scope| {
        let sent = scope.spawn(|| password_sent_to(&listener));
        let refused = run(&mut command);
        (sent.join().unwrap(), refused)
    });
    assert!(sent.is_empty(), "{sent:?}");
    refused.ends_with(4).says(&["password missing"]);
}

#[test]
fn an_encoding_that_lacks_a_character_is_named() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (mut place, _) = connected(&scratch);
    let named = scratch.join("\u{434}\u{430}\u{43d}\u{43d}\u{44b}\u{435}");
    std::fs::rename(&place.data, &named).unwrap();
    place.data = named;
    server.administer("CREATE DATABASE latin OWNER mirror ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    run(&mut mirror_to(&place.data, &server.url().replace(DATABASE, "latin")))
        .ends_with(2)
        .says(&["latin", "LATIN1", "\u{434}\u{430}", "ENCODING 'UTF8'"]);
}
