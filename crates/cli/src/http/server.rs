//! The thread that serves: connections are few, requests small, and clients may be slow, but not
//! without end.

use crate::http::answer::answer;
use crate::http::patient::Patient;
use crate::http::site::{Site, TICK};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// Refused clients at a time. More wait until they are accepted.
const REFUSED_MAX: usize = 64;

/// Longest time for which a refused client is read, so that it gets its answer: a connection that
/// is closed with something unread is reset, and the answer with it.
const REFUSAL: Duration = Duration::from_secs(1);

/// Time for the head of a request, and for which a connection may be without one.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of the head of a request, and of what is kept for a client that does not read.
const BUFFER_MAX: usize = 16 << 10;

/// The same in the system.
const SEND_BUFFER: u32 = 64 << 10;

/// Most lines of the head of a request.
const HEADERS_MAX: usize = 64;

/// Connections that wait until they are accepted.
const BACKLOG: u32 = 128;

/// What a client waits for its turn when there is much to do.
const TURN: Duration = Duration::from_millis(100);

/// Between two looks whether a refused client has gone.
const LOOK: Duration = Duration::from_millis(10);

/// What a client gets when there are too many.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

pub(super) fn listen(runtime: &Runtime, address: SocketAddr) -> io::Result<TcpListener> {
    let _entered = runtime.enter();
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // The next run may have the address at once.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `ended` says so, or its other half is gone.
pub(super) fn run(runtime: &Runtime, listener: TcpListener, site: impl FnOnce() -> Site, ended: oneshot::Receiver<()>) {
    give_way();
    let site = Rc::new(site());
    let tasks = LocalSet::new();
    tasks.spawn_local(accept(listener, Rc::clone(&site)));
    tasks.spawn_local(tick(site));
    tasks.block_on(runtime, async {
        let _ = ended.await;
    });
}

/// Lets threads that validate go first.
fn give_way() {
    // On Linux this is about the calling thread alone.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

async fn tick(site: Rc<Site>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        site.tick();
    }
}

async fn accept(listener: TcpListener, site: Rc<Site>) {
    // Each client has a clone.
    let (clients, refused) = (Rc::new(()), Rc::new(()));
    loop {
        let accepted = listener.accept().await;
        // There may be no more files for a while, or too many clients.
        if site.spend() || accepted.is_err() {
            sleep(TURN).await;
        }
        let Ok((stream, _)) = accepted else {
            continue;
        };
        if Rc::strong_count(&clients) > CONNECTIONS_MAX {
            let counted = Rc::clone(&refused);
            spawn_local(async {
                let _ = timeout(REFUSAL, refuse(stream)).await;
                drop(counted);
            });
            while Rc::strong_count(&refused) > REFUSED_MAX {
                sleep(LOOK).await;
            }
            continue;
        }
        let (served, counted) = (serve(stream, Rc::clone(&site)), Rc::clone(&clients));
        spawn_local(async {
            served.await;
            drop(counted);
        });
    }
}

/// Answers a client that there are too many, and reads until it closes the connection.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(BUSY).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// Answers the requests of a connection.
async fn serve(stream: TcpStream, site: Rc<Site>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let site = Rc::clone(&site);
        async move {
            if site.spend() {
                sleep(TURN).await;
            }
            Ok::<_, Infallible>(answer(&site, &request))
        }
    });
    // A client may go away early, or send what is no request.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(BUFFER_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
        .await;
}
