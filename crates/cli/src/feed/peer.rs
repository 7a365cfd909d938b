//! Whether the machine of a consumer over TCP is still there.
//!
//! A consumer may pause for hours: its receive window is full, its kernel acknowledges zero-window
//! probes, and it keeps its slot. One whose machine or link is gone acknowledges nothing, and loses
//! its slot. No option of a socket makes that difference. `TCP_USER_TIMEOUT` ends a connection
//! whose window was zero for that time, also if its probes are acknowledged (`tcp_probe_timer` of
//! Linux); without it, probes are up to two minutes apart, and 15 of them have to fail. So a
//! connection is judged here, by the time since its last acknowledgement. Something is always to be
//! acknowledged: data, a keepalive probe of an idle connection, or a zero-window probe. The last is
//! never later than the end of `TCP_USER_TIMEOUT`, which is moved ahead before it comes.

use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::{net::Shutdown, time::Instant};

/// Longest time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(20);

/// A peer that has acknowledged nothing for this long is gone, if probes were sent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Probes that a peer may leave unanswered. The last one may be on its way.
const UNANSWERED_MAX: u8 = 1;

/// The peer of a connection.
pub(super) struct Peer {
    #[cfg(target_os = "linux")]
    stream: TcpStream,
    /// When probes or retransmissions began, if they have.
    #[cfg(target_os = "linux")]
    stalled: Option<Instant>,
}

impl Peer {
    /// Has the system probe the peer of a connection.
    pub(super) fn new(stream: &TcpStream) -> io::Result<Self> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, PROBE_INTERVAL)?;
        sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, (SILENCE_MAX.as_secs() / PROBE_INTERVAL.as_secs()) as u32)?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            stream: stream.try_clone()?,
            #[cfg(target_os = "linux")]
            stalled: None,
        })
    }

    /// Ends the connection if its peer is gone. To be called every second. Elsewhere than on Linux,
    /// keepalive probes have to do.
    #[cfg(target_os = "linux")]
    pub(super) fn look(&mut self) -> io::Result<()> {
        let info = tcp_info(&self.stream)?;
        let silence = Duration::from_millis(info.tcpi_last_ack_recv.into());
        let unanswered = info.tcpi_probes.max(info.tcpi_retransmits);
        if silence >= SILENCE_MAX && unanswered > UNANSWERED_MAX {
            return self.stream.shutdown(Shutdown::Both);
        }
        self.stalled = (info.tcpi_backoff > 0).then(|| self.stalled.unwrap_or_else(Instant::now));
        let timeout = match self.stalled {
            Some(begun) => begun.elapsed() + PROBE_INTERVAL,
            None => SILENCE_MAX,
        };
        Ok(sockopt::set_tcp_user_timeout(&self.stream, timeout.as_millis() as u32)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn look(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the system knows of a connection.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "TCP_INFO has no safe wrapper")]
fn tcp_info(stream: &TcpStream) -> io::Result<libc::tcp_info> {
    use std::os::fd::AsRawFd;
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed. The call writes at most `length`
    // bytes to `info`, which has as many. All zeros are a `tcp_info`, too, where it writes fewer.
    let (outcome, info) = unsafe {
        let outcome = libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        );
        (outcome, info.assume_init())
    };
    match outcome {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}
