//! Figures in Prometheus' text form, served over HTTP.
//!
//! One thread answers one request at a time: every request gets the figures, whatever it asks for. A peer that is slow or
//! sends too much is let go.

use crate::failure::Failure;
use blockmill_engine::Progress;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most bytes of a request that are read.
const REQUEST_MAX: usize = 8 << 10;

/// Longest time that a peer may take for one read or write.
const PATIENCE: Duration = Duration::from_secs(2);

/// The figures that are served now.
pub(crate) struct Metrics {
    text: Arc<Mutex<String>>,
}

impl Metrics {
    /// Begins to serve at `address`, until the process ends.
    pub(crate) fn serve(address: SocketAddr) -> Result<Self, Failure> {
        let usage = |error: std::io::Error| Failure::Usage(format!("--metrics {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(usage)?;
        let local = listener.local_addr().map_err(usage)?;
        eprintln!("blockmill: metrics at http://{local}/metrics");
        let text = Arc::new(Mutex::new(String::new()));
        let served = Arc::clone(&text);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let body = served.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // A peer that goes away early is no concern of ours.
                    let _ = answer(stream, &body);
                }
            })
            .map_err(usage)?;
        Ok(Self { text })
    }

    pub(crate) fn update(&self, progress: &Progress) {
        let text = render(progress);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(mut stream: TcpStream, body: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while request.len() < REQUEST_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn render(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let rows: [(&str, &str, &str, f64); 10] = [
        ("height", "gauge", "height of the tip", f64::from(progress.height)),
        (
            "best_height",
            "gauge",
            "height of the best chain known",
            f64::from(progress.best_height),
        ),
        ("blocks_total", "counter", "blocks connected", progress.blocks as f64),
        (
            "transactions_total",
            "counter",
            "transactions connected",
            progress.transactions as f64,
        ),
        ("inputs_total", "counter", "inputs connected", progress.inputs as f64),
        (
            "bytes_total",
            "counter",
            "bytes of blocks connected",
            progress.bytes as f64,
        ),
        (
            "bytes_remaining",
            "gauge",
            "bytes of blocks that remain",
            progress.bytes_remaining as f64,
        ),
        (
            "cache_coins",
            "gauge",
            "entries in the coins cache",
            progress.cache_coins as f64,
        ),
        (
            "cache_bytes",
            "gauge",
            "memory of the coins cache in bytes",
            progress.cache_bytes as f64,
        ),
        ("elapsed_seconds", "gauge", "seconds since connecting began", seconds),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "# HELP blockmill_{name} {help}\n# TYPE blockmill_{name} {kind}\nblockmill_{name} {value}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let metrics = Metrics::serve(address).unwrap();
        metrics.update(&Progress {
            height: 50,
            best_height: 200,
            blocks: 50,
            transactions: 60,
            inputs: 1000,
            bytes: 1000,
            bytes_remaining: 3000,
            cache_coins: 7,
            cache_bytes: 99,
            elapsed: Duration::from_millis(1500),
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(answer.contains("\nblockmill_height 50\n"));
        assert!(answer.contains("\nblockmill_elapsed_seconds 1.5\n"));
        assert!(answer.contains("# TYPE blockmill_inputs_total counter\n"));
    }
}
