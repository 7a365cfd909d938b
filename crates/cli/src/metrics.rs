//! Figures in Prometheus' text form, served over HTTP.
//!
//! One thread answers one request at a time. `/metrics` has all figures; there is nothing else. The
//! connection is closed if the peer is slow or sends too much.

use crate::build_info;
use crate::failure::Failure;
use crate::log;
use crate::output;
use blockmill_chain::Progress;
use blockmill_engine::report::{FIGURES, Totals, Value};
use blockmill_fastest::Speeds;
use blockmill_script::Way;
use serde_json::json;
use sha256_lanes::Backend;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Most bytes of a request that are read.
const REQUEST_MAX: usize = 8 << 10;

/// Time limit for reading a request, and for each write.
const PATIENCE: Duration = Duration::from_secs(2);

/// The latest reports of the engine.
#[derive(Debug, Default)]
struct Figures {
    progress: Option<Progress>,
    totals: Totals,
}

/// The figures, shared with the thread that serves them.
#[derive(Clone)]
pub(crate) struct Metrics {
    figures: Arc<Mutex<Figures>>,
}

impl Metrics {
    /// Serves at `address` until the process ends. `store` is the file or folder of the coin store.
    pub(crate) fn serve(address: SocketAddr, store: PathBuf) -> Result<Self, Failure> {
        let usage = |error: std::io::Error| Failure::Usage(format!("--metrics {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(usage)?;
        let local = listener.local_addr().map_err(usage)?;
        log::info(
            "metrics",
            &format!("metrics at http://{local}/metrics"),
            json!({"address": local.to_string()}),
        );
        let figures = Arc::new(Mutex::new(Figures::default()));
        let served = Arc::clone(&figures);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A peer may go away early.
                    let _ = answer(stream, || render(&lock(&served), &store));
                }
            })
            .map_err(usage)?;
        Ok(Self { figures })
    }

    pub(crate) fn set_progress(&self, progress: &Progress) {
        lock(&self.figures).progress = Some(*progress);
    }

    pub(crate) fn set_totals(&self, totals: &Totals) {
        lock(&self.figures).totals = *totals;
    }
}

/// Locks the figures. A panic of another thread leaves them whole, so poison is ignored.
fn lock(figures: &Mutex<Figures>) -> MutexGuard<'_, Figures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of the figures.
const PATH: &str = "/metrics";

/// Whether a request asks for the figures.
fn asks_for_figures(request: &[u8]) -> bool {
    // Such as `GET /metrics?x HTTP/1.1`.
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let path = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    path.split(|&byte| byte == b'?').next() == Some(PATH.as_bytes())
}

/// Reads a request, and answers it.
fn answer(mut stream: TcpStream, body: impl FnOnce() -> String) -> std::io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    // An empty line ends the head, and a request for figures has no more.
    while request.len() < REQUEST_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let (status, body) = if asks_for_figures(&request) {
        ("200 OK", body())
    } else {
        ("404 Not Found", format!("the figures are at {PATH}\n"))
    };
    // In one piece: nobody gets a part of it when the process ends.
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes())
}

/// Adds the help and type lines of a figure.
fn add_head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// Adds one figure with these lines.
fn add(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    add_head(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

/// Bytes of a file, or of all files in a folder.
fn size_of_store(path: &Path) -> u64 {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| length(&entry.path())).sum(),
        Err(_) => length(path),
    }
}

/// Adds what the program is, and figures of the process under the names that all programs use.
fn add_process(text: &mut String) {
    add_head(text, "blockmill_build_info", "gauge", "what the program is");
    let _ = writeln!(
        text,
        "blockmill_build_info{{version=\"{}\",commit=\"{}\",kernel=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION"),
        build_info::COMMIT,
        build_info::CORE
    );
    let seconds = output::cpu_seconds();
    add(
        text,
        "process_cpu_seconds_total",
        "counter",
        "CPU time in seconds",
        seconds,
    );
    let Some(process) = Process::read() else {
        return;
    };
    #[rustfmt::skip]
    let figures = [
        ("resident_memory_bytes", "gauge", "memory in bytes", process.resident_bytes as f64),
        ("virtual_memory_bytes", "gauge", "address space in bytes", process.virtual_bytes as f64),
        ("open_fds", "gauge", "open files", process.open_files as f64),
        ("threads", "gauge", "threads", process.threads as f64),
        ("start_time_seconds", "gauge", "time of the start, in seconds since 1970", process.start_time),
    ];
    for (name, kind, help, value) in figures {
        add(text, &format!("process_{name}"), kind, help, value);
    }
}

/// Figures of this process.
struct Process {
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: usize,
    threads: u64,
    start_time: f64,
}

impl Process {
    /// Reads them where the system has them as files: on Linux.
    fn read() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let started = std::fs::metadata("/proc/self").ok()?.modified().ok()?;
        Some(Self {
            // The system counts in KiB.
            resident_bytes: number("VmRSS:")? << 10,
            virtual_bytes: number("VmSize:")? << 10,
            open_files: std::fs::read_dir("/proc/self/fd").ok()?.count(),
            threads: number("Threads:")?,
            start_time: started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64(),
        })
    }
}

fn render(figures: &Figures, store: &Path) -> String {
    let mut text = String::new();
    add_process(&mut text);
    if let Some(progress) = &figures.progress {
        add_progress(&mut text, progress);
    }
    add_totals(&mut text, &figures.totals);
    let stages = || figures.totals.stages.named();
    add_head(
        &mut text,
        "blockmill_stage_busy_seconds_total",
        "counter",
        "seconds of work in a stage",
    );
    for (stage, time) in stages() {
        let seconds = time.busy_seconds;
        let _ = writeln!(
            text,
            "blockmill_stage_busy_seconds_total{{stage=\"{stage}\"}} {seconds}"
        );
    }
    add_head(
        &mut text,
        "blockmill_stage_wait_seconds_total",
        "counter",
        "seconds of waiting in a stage",
    );
    for (stage, time) in stages() {
        let seconds = time.wait_seconds;
        let _ = writeln!(
            text,
            "blockmill_stage_wait_seconds_total{{stage=\"{stage}\"}} {seconds}"
        );
    }
    if let Some(speeds) = blockmill_script::measured() {
        let name = "blockmill_signature_check_seconds";
        let help = "CPU seconds of a signature check, as measured";
        add_speeds(&mut text, name, help, speeds, Way::name);
    }
    if let Some(speeds) = sha256_lanes::measured() {
        let name = "blockmill_hash_seconds";
        let help = "CPU seconds of a double SHA-256 of a transaction or a merkle pair, as measured";
        add_speeds(&mut text, name, help, speeds, Backend::name);
    }
    let bytes = size_of_store(store) as f64;
    add(
        &mut text,
        "blockmill_store_bytes",
        "gauge",
        "size of the coin store in bytes",
        bytes,
    );
    text
}

fn add_progress(text: &mut String, progress: &Progress) {
    let seconds = progress.elapsed.as_secs_f64();
    // Over the whole run. Prometheus computes the rates of an interval from the counters.
    let rate = |count: u64| count as f64 / seconds.max(1e-9);
    #[rustfmt::skip]
    let gauges = [
        ("height", "height of the tip", f64::from(progress.height)),
        ("best_height", "height of the best known chain", f64::from(progress.best_height)),
        ("tip_time_seconds", "time in the header of the tip, in seconds since 1970", f64::from(progress.tip_time)),
        ("share", "share of the best chain's bytes that is connected, from 0 to 1", progress.share),
        ("bytes_remaining", "bytes of blocks still to be connected", progress.bytes_remaining as f64),
        ("cache_coins", "entries in the coins cache", progress.cache_coins as f64),
        ("cache_bytes", "memory of the coins cache in bytes", progress.cache_bytes as f64),
        ("elapsed_seconds", "seconds since connecting began", seconds),
        ("blocks_per_second", "blocks connected per second, over the whole run", rate(progress.blocks)),
        ("inputs_per_second", "inputs connected per second, over the whole run", rate(progress.inputs)),
    ];
    for (name, help, value) in gauges {
        add(text, &format!("blockmill_{name}"), "gauge", help, value);
    }
}

/// How fast the ways of some work were.
fn add_speeds<W: Copy>(text: &mut String, name: &str, help: &str, speeds: &Speeds<W>, way_name: fn(W) -> &'static str) {
    add_head(text, name, "gauge", help);
    for speed in speeds.ways() {
        let (way, seconds) = (way_name(speed.way), speed.time.as_secs_f64());
        let _ = writeln!(text, "{name}{{way=\"{way}\"}} {seconds}");
    }
}

fn add_totals(text: &mut String, totals: &Totals) {
    for figure in &FIGURES {
        let (kind, value) = match figure.value(totals) {
            Value::Count(count) => ("counter", count as f64),
            Value::Seconds(seconds) => ("counter", seconds),
            Value::Max(most) => ("gauge", most as f64),
            Value::Longest(seconds) => ("gauge", seconds),
            Value::Depth(depth) => ("gauge", depth.mean()),
        };
        add(text, &format!("blockmill_{}", figure.metric), kind, figure.help, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_coins::CacheCounters;
    use blockmill_rules::SignatureCounts;

    /// A server with figures, its address, and the file that is its store.
    fn serve() -> (Metrics, SocketAddr, tempfile::NamedTempFile) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let store = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(store.path(), [0; 77]).unwrap();
        let metrics = Metrics::serve(address, store.path().to_owned()).unwrap();
        metrics.set_progress(&Progress {
            height: 50,
            tip_time: 1_700_000_000,
            best_height: 200,
            blocks: 50,
            transactions: 60,
            inputs: 1000,
            bytes: 1000,
            bytes_remaining: 3000,
            share: 0.25,
            cache_coins: 7,
            cache_bytes: 99,
            elapsed: Duration::from_millis(1500),
        });
        let totals = Totals {
            inputs: 1000,
            flushes: 3,
            cache: CacheCounters { hits: 5, misses: 4 },
            signatures: SignatureCounts {
                lanes: 800,
                again: 2,
                ..SignatureCounts::default()
            },
            ..Totals::default()
        };
        metrics.set_totals(&totals);
        (metrics, address, store)
    }

    /// The answer to a request for this path.
    fn answer_to(path: &str, address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_is_answered() {
        let (_metrics, address, _store) = serve();
        // A silent peer delays the next one by no more than the time limit.
        let _silent = TcpStream::connect(address).unwrap();
        let answer = answer_to("/metrics", address);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(answer.contains("\nblockmill_height 50\n"));
        assert!(answer.contains("\nblockmill_tip_time_seconds 1700000000\n"));
        assert!(answer.contains(&format!(
            "\nblockmill_build_info{{version=\"{}\",",
            env!("CARGO_PKG_VERSION")
        )));
        let names = [
            "cpu_seconds_total",
            "resident_memory_bytes",
            "open_fds",
            "start_time_seconds",
        ];
        let known = if cfg!(target_os = "linux") { names.len() } else { 1 };
        for name in &names[..known] {
            let line = answer
                .lines()
                .find_map(|line| line.strip_prefix(&format!("process_{name} ")));
            let value: f64 = line.unwrap().parse().unwrap();
            assert!(value > 0.0, "{name} {value}");
        }
        assert!(answer.contains("\nblockmill_elapsed_seconds 1.5\n"));
        assert!(answer.contains("# TYPE blockmill_inputs_total counter\nblockmill_inputs_total 1000\n"));
        assert!(
            answer.contains("\nblockmill_cache_misses_total 4\n") && answer.contains("\nblockmill_flushes_total 3\n")
        );
        assert!(answer.contains("\nblockmill_store_bytes 77\n"));
        assert!(answer.contains("\nblockmill_signatures_lanes_total 800\n"));
        assert!(answer.contains("\nblockmill_scripts_again_total 2\n"));
        for stage in ["read", "decode", "fetch", "resolve", "check", "commit", "flush"] {
            assert!(
                answer.contains(&format!("blockmill_stage_busy_seconds_total{{stage=\"{stage}\"}} 0")),
                "{stage}"
            );
        }
        for (path, status) in [
            ("/", "404 Not Found"),
            ("/metrics/", "404 Not Found"),
            ("/metrics?x=1", "200 OK"),
        ] {
            let answer = answer_to(path, address);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        }
    }

    #[test]
    fn every_figure_has_one_help_line_and_one_type_line() {
        let (_metrics, address, _store) = serve();
        let answer = answer_to("/metrics", address);
        let mut names: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let helps = answer.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(names.len(), helps);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), helps);
    }
}
