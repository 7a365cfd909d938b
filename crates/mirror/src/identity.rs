//! The process that a session of the server belongs to, as advisory locks of that session.
//!
//! A session holds the schema of its mirror by a lock. Where its connection died without a word,
//! the server may keep both for hours. A session therefore takes two locks more, which state its
//! process and end with it: `pg_locks` shows them to every role, before any table is there.

use crate::error::MirrorError;
use crate::schema::Schema;
use crate::witness::Witness;
use blockmill_chain::Level;
use postgres::{Client, Error};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;
use std::fs;
use std::hash::{BuildHasher, RandomState};

/// Most that Linux takes for the number of a process: less than the keys of our other locks.
const PROCESS_MAX: i64 = 1 << 22;

/// The processes of a place whose sessions hold a lock of a schema.
const HOLDERS: &str = "
    SELECT holder.pid, process.classid, process.objid FROM pg_locks AS holder
        JOIN pg_locks AS place ON place.pid = holder.pid AND place.locktype = 'advisory' AND place.objsubid = 1
            AND (place.classid::bigint << 32 | place.objid::bigint) = hashtextextended($3, 0)
        JOIN pg_locks AS process ON process.pid = holder.pid AND process.locktype = 'advisory'
            AND process.objsubid = 2 AND process.classid::bigint <= $4
        WHERE holder.locktype = 'advisory' AND holder.objsubid = 2 AND holder.granted
            AND holder.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND holder.classid::bigint = $1 AND holder.objid::bigint = hashtext($2)::bigint & 4294967295";

/// Ends a session, unless its number is another session's by now.
const TERMINATE: &str = "
    SELECT pg_terminate_backend($1) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND objsubid = 2
        AND classid::bigint = $2 AND objid::bigint = $3";

/// What holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A process of this place that runs.
    Running(u32),
    /// A session that was told to end, or one of another place.
    Other,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The run of the operating system and the namespace of process numbers. Processes can be
    /// compared within a place only.
    place: String,
    /// Process number.
    process: u32,
    /// Start of the process in clock ticks since the system started, in 32 bits.
    start: u32,
}

impl Identity {
    /// The identity of this process. Where the system does not state one, the place is random, so
    /// that only this process itself is recognised.
    pub(crate) fn own() -> Self {
        let process = std::process::id();
        Self::of_process(process).unwrap_or_else(|| Self {
            place: RandomState::new().hash_one(process).to_string(),
            process,
            start: 0,
        })
    }

    fn of_process(process: u32) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        Some(Self {
            place: format!("{} {}", boot.trim(), namespace.display()),
            process,
            start: start_of(process)?.1,
        })
    }

    /// Adds this identity to a session.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn add_to(&self, client: &mut Client) -> Result<(), Error> {
        client.execute(
            "SELECT pg_try_advisory_lock_shared(hashtextextended($1, 0)), pg_try_advisory_lock_shared($2, $3)",
            &[&self.place, &self.process.cast_signed(), &self.start.cast_signed()],
        )?;
        Ok(())
    }

    /// Finds what holds a lock of a schema, and ends sessions whose process is gone.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn holder(
        &self,
        client: &mut Client,
        class: i32,
        schema: &Schema,
        witness: &dyn Witness,
    ) -> Result<Holder, MirrorError> {
        let rows = client.query(HOLDERS, &[&i64::from(class), &schema.name(), &self.place, &PROCESS_MAX])?;
        let mut holder = Holder::Other;
        for row in rows {
            let (session, process, start): (i32, u32, u32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if self.is_running(process, start) {
                holder = Holder::Running(process);
                continue;
            }
            match client.execute(TERMINATE, &[&session, &i64::from(process), &i64::from(start)]) {
                Ok(1) => {}
                // It has ended, or is of another role.
                Ok(_) => continue,
                Err(error) if error.as_db_error().is_some() => continue,
                Err(error) => return Err(error.into()),
            }
            let text = format!(
                "the server still had session {session} of process {process}, whose connection is lost: it is ended"
            );
            let fields = json!({"session": session, "process": process});
            witness.line(Level::Info, "mirror_session_ended", &text, fields);
        }
        Ok(holder)
    }

    /// Whether another process of this place runs. This process has no session where it takes
    /// locks.
    fn is_running(&self, process: u32, start: u32) -> bool {
        if (process, start) == (self.process, self.start) {
            return false;
        }
        let number = Pid::from_raw(process.cast_signed());
        match start_of(process) {
            Some((has_ended, now)) => !has_ended && now == start,
            // The system may hide processes of other users.
            None => number.is_some_and(|number| test_kill_process(number) != Err(Errno::SRCH)),
        }
    }
}

/// Whether a process has ended and is only not waited for, and when it started. None if that cannot
/// be read.
fn start_of(process: u32) -> Option<(bool, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The fields after the name, which may hold any character. The state comes first.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let start: u64 = fields.nth(18)?.parse().ok()?;
    // The low bits are enough to tell two processes of one number apart.
    Some((has_ended, start as u32))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_runs_until_it_has_ended() {
        let own = Identity::own();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let other = Identity::of_process(child.id()).expect("the system states it");
        assert_eq!(own.place, other.place);
        assert!(own.is_running(other.process, other.start));
        // Another process had this number before.
        assert!(!own.is_running(other.process, other.start.wrapping_sub(1)));
        child.kill().unwrap();
        // A zombie has no connection.
        while start_of(other.process).is_some_and(|(has_ended, _)| !has_ended) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!own.is_running(other.process, other.start));
        child.wait().unwrap();
        assert!(!own.is_running(other.process, other.start));
        assert!(!own.is_running(own.process, own.start));
    }
}
