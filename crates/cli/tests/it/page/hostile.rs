//! Clients that are many, slow or wrong: what they take is bounded, and connecting goes on.

use super::client::{PATIENCE, Served};
use super::long_chain;
use crate::common::growth::sample;
use crate::common::{Rng, Scratch, connect, stats};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that the server has at a time, as in `crates/cli/src/http/server.rs`.
const CONNECTIONS_MAX: usize = 64;

/// Those that are being refused, as there.
const REFUSED_MAX: usize = 64;

/// Files of the process beside connections, and one that is about to be refused.
const OTHER_FILES: usize = 2;

fn open_files(served: &Served) -> usize {
    sample(served.id(), 0).unwrap().files as usize
}

/// Whether the server has closed a connection, or closes it within a time.
fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Asks until there are not too many clients any more.
#[track_caller]
fn wait_for_room(served: &Served, request: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = served.ask(request);
        if answer.status == 200 {
            return;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(Instant::now() < end, "{answer:?}");
    }
}

#[test]
fn connections_are_bounded_and_silent_ones_closed() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let before = open_files(&served);
    let mut silent: Vec<_> = (0..3 * CONNECTIONS_MAX).map(|_| served.connect()).collect();
    std::thread::sleep(Duration::from_secs(1));
    let files = open_files(&served);
    assert!(
        files <= before + CONNECTIONS_MAX + REFUSED_MAX + OTHER_FILES,
        "{before} files, then {files}"
    );
    let start = Instant::now();
    assert!(
        silent
            .iter_mut()
            .all(|stream| is_closed(stream, Duration::from_secs(20)))
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    // There is room again.
    assert_eq!(served.get("/metrics").status, 200);
    assert!(open_files(&served) <= before + OTHER_FILES);
}

#[test]
fn each_connection_above_the_limit_gets_its_answer() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Filler: 0123456789\r\n\r\n";
    // They are let in, and are silent.
    let _silent: Vec<_> = (0..CONNECTIONS_MAX).map(|_| served.connect()).collect();
    std::thread::sleep(Duration::from_millis(500));
    for number in 0..100 {
        let mut stream = served.connect();
        // Sometimes the answer is there before the request.
        std::thread::sleep(Duration::from_millis(number % 3 * 5));
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 "), "{number}: {text}");
    }
}

#[test]
fn malformed_requests_are_refused_and_closed() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(20_000));
    let many_lines = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(200));
    let large_head = format!("GET / HTTP/1.1\r\nHost: localhost\r\na: {}\r\n\r\n", "b".repeat(40_000));
    for request in [
        "\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\n : localhost\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n",
        &long_line,
        &many_lines,
        &large_head,
    ] {
        let mut stream = served.connect();
        // The server may close before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let status = text.split(' ').nth(1).unwrap_or("");
        assert!(
            ["", "400", "414", "431", "505"].contains(&status),
            "{request:.60}: {text}"
        );
    }
    // Bytes of all kinds.
    let mut random = Rng::new(3);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.below(256) as u8).collect();
        let mut stream = served.connect();
        let _ = stream.write_all(&bytes);
    }
    // The last of them may still have all connections.
    wait_for_room(&served, "GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(served.stop(), Some(0));
}

/// A head that comes byte by byte is not waited for without end, and one client that does so is no
/// trouble for another.
#[test]
fn a_slow_head_is_given_up() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let mut slow = served.connect();
    let start = Instant::now();
    for byte in "GET / HTTP/1.1\r\nHost: localhost\r\nX: "
        .bytes()
        .chain(std::iter::repeat(b'x'))
    {
        if slow.write_all(&[byte]).is_err() {
            break;
        }
        assert_eq!(served.get("/status.json").status, 200);
        assert!(start.elapsed() < Duration::from_secs(30), "it is still waited for");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A client that asks for page after page and reads none is cut off.
#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let mut stream = served.connect();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = Instant::now();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    loop {
        match stream.write(request) {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(start.elapsed() < PATIENCE, "it is still served");
    }
    assert_eq!(served.get("/metrics").status, 200);
}

/// Sends what it can, reads little or nothing, and begins anew.
fn molest(address: &str, kind: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            return;
        };
        let request: &[u8] = match kind % 4 {
            0 => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            1 => b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            2 => b"\x16\x03\x01\x02\x00",
            _ => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        };
        // Many answers are asked for, and none is read.
        for _ in 0..100 {
            if stream.set_write_timeout(Some(Duration::from_millis(10))).is_err() || stream.write_all(request).is_err()
            {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connecting_goes_on_and_ends_right_under_clients_of_all_kinds() {
    let scratch = Scratch::new();
    let (blocks, manifest) = long_chain(&scratch);
    let data = scratch.join("data");
    let mut served = Served::start(connect(&blocks, &data, "regtest").args(["--par", "1"]));
    let stop = AtomicBool::new(false);
    let (mut most, mut answers) = (0, 0);
    std::thread::scope(|scope| {
        let molesters = (0..12).map(|kind| {
            let (address, stop) = (&served.address, &stop);
            scope.spawn(move || molest(address, kind, stop))
        });
        let molesters: Vec<_> = molesters.collect();
        // One client among them that behaves.
        while let Ok(mut stream) = TcpStream::connect(&served.address) {
            // The process may be gone.
            most = most.max(sample(served.id(), 0).map_or(0, |now| now.files as usize));
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut text = String::new();
            // It may be refused, or the command may end meanwhile.
            let _ = stream.write_all(b"GET /status.json HTTP/1.0\r\n\r\n");
            let _ = stream.read_to_string(&mut text);
            answers += usize::from(text.starts_with("HTTP/1.0 200"));
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        molesters.into_iter().for_each(|molester| molester.join().unwrap());
    });
    assert_eq!(served.end(), Some(0));
    eprintln!("at most {most} files, {answers} answers");
    assert!(most < 2 * CONNECTIONS_MAX + REFUSED_MAX, "{most} files");
    let figures = stats(&data);
    assert_eq!(figures["hash_serialized_3"], manifest["hash_serialized_3"]);
}
