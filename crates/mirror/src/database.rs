//! Connections to the database, and who may have them: one mirror for each schema.

use crate::error::MirrorError;
use crate::identity::{Holder, Identity};
use crate::schema::Schema;
use crate::target::Target;
use crate::witness::Witness;
use postgres::CancelToken;
use postgres::Client;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first half of the keys of our locks: one for the mirror, one for what it has started.
const MIRROR_LOCK: i32 = 0x626d_6d31;
const LOADER_LOCK: i32 = 0x626d_6d32;

/// How long a lock that a running process holds is waited for: the process may be about to end.
const RUNNING_PATIENCE: Duration = Duration::from_secs(5);

/// How long any other lock is waited for: the server needs half a minute, by the keepalives of
/// [`SETTINGS`], to find that a session has no client.
const LOST_PATIENCE: Duration = Duration::from_secs(40);

/// Between two tries.
const LOCK_STEP: Duration = Duration::from_millis(100);

/// Between two looks at the stop flag.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// What each session is set to, where its server has the setting. No limits of time: an index may
/// take hours. The server finds a dead connection as fast as the client does.
const SETTINGS: [(&str, &str); 9] = [
    ("lock_timeout", "0"),
    ("transaction_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("client_min_messages", "warning"),
    ("tcp_keepalives_idle", "15"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "30000"),
];

/// Has the server end what it does for a client that is gone. Older ones do not have it, nor do
/// some systems.
const CHECK_CLIENT: &str = "SET client_connection_check_interval = '1s'";

/// A database, and what goes on there.
pub(crate) struct Database {
    pub(crate) target: Target,
    identity: Identity,
    /// Whether something was written since the last failure.
    has_moved: AtomicBool,
    /// What ends the statements that go on.
    cancels: Mutex<Vec<(u64, CancelToken)>>,
    stop: Arc<AtomicBool>,
    witness: Arc<dyn Witness>,
}

/// A connection, whose statements a signal ends.
pub(crate) struct Connection<'d> {
    client: Client,
    database: &'d Database,
    number: u64,
}

impl Database {
    pub(crate) fn new(target: Target, stop: Arc<AtomicBool>, witness: Arc<dyn Witness>) -> Self {
        Self {
            target,
            witness,
            identity: Identity::own(),
            has_moved: AtomicBool::new(false),
            cancels: Mutex::default(),
            stop,
        }
    }

    pub(crate) fn witness(&self) -> &dyn Witness {
        &*self.witness
    }

    /// Waits, unless the command is to stop.
    pub(crate) fn wait(&self, pause: Duration) -> Result<(), MirrorError> {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            self.check_stop()?;
            std::thread::sleep(WAIT_STEP);
        }
        Ok(())
    }

    /// Ends the command if it is to stop.
    pub(crate) fn check_stop(&self) -> Result<(), MirrorError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(MirrorError::Stopped),
            false => Ok(()),
        }
    }

    /// # Errors
    /// That the server is not there, or lets nobody in.
    pub(crate) fn connect(&self) -> Result<Connection<'_>, MirrorError> {
        self.check_stop()?;
        let mut client = self.target.connect()?;
        // First, and alone: a limit for this role holds until then.
        client.batch_execute("SET statement_timeout = 0")?;
        let (names, values): (Vec<&str>, Vec<&str>) = SETTINGS.into_iter().unzip();
        client.execute(
            "SELECT set_config(name, wanted, false)
                FROM unnest($1::text[], $2::text[]) AS settings (name, wanted) JOIN pg_settings USING (name)",
            &[&names, &values],
        )?;
        self.identity.add_to(&mut client)?;
        if let Err(error) = client.batch_execute(CHECK_CLIENT)
            && error.as_db_error().is_none()
        {
            return Err(error.into());
        }
        let mut cancels = self.cancels();
        let number = cancels.last().map_or(0, |(last, _)| last + 1);
        cancels.push((number, client.cancel_token()));
        drop(cancels);
        Ok(Connection {
            client,
            database: self,
            number,
        })
    }

    /// Notes that the tables have changed.
    pub(crate) fn note_move(&self) {
        self.has_moved.store(true, Ordering::Relaxed);
    }

    /// Whether the tables have changed since this was asked last.
    pub(crate) fn take_move(&self) -> bool {
        self.has_moved.swap(false, Ordering::Relaxed)
    }

    fn cancels(&self) -> MutexGuard<'_, Vec<(u64, CancelToken)>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the server end all statements that go on.
    pub(crate) fn cancel(&self) {
        let cancels: Vec<CancelToken> = self.cancels().iter().map(|(_, token)| token.clone()).collect();
        for token in cancels {
            // Whoever does not answer is left.
            let _ = token.cancel_query(self.target.tls.clone());
        }
    }
}

impl Connection<'_> {
    /// Takes the schema for this mirror. Sessions of mirrors that are gone are ended first.
    pub(crate) fn lock(&mut self, schema: &Schema) -> Result<(), MirrorError> {
        for (class, is_kept) in [(MIRROR_LOCK, true), (LOADER_LOCK, false)] {
            let start = Instant::now();
            while !self.try_lock("pg_try_advisory_lock", class, schema)? {
                let holder = self
                    .database
                    .identity
                    .holder(&mut self.client, class, schema, self.database.witness())?;
                let (patience, process) = match holder {
                    Holder::Running(process) => (RUNNING_PATIENCE, format!(": process {process} of this machine")),
                    Holder::Other => (LOST_PATIENCE, String::new()),
                };
                if start.elapsed() >= patience {
                    return Err(MirrorError::Busy(format!(
                        "another mirror has the schema {} of {}{process}",
                        schema.name(),
                        self.database.target.name
                    )));
                }
                self.database.wait(LOCK_STEP)?;
            }
            if !is_kept {
                self.try_lock("pg_advisory_unlock", class, schema)?;
            }
        }
        Ok(())
    }

    /// Has a mirror that comes later wait for the end of this connection.
    pub(crate) fn lock_as_loader(&mut self, schema: &Schema) -> Result<(), MirrorError> {
        match self.try_lock("pg_try_advisory_lock_shared", LOADER_LOCK, schema)? {
            true => Ok(()),
            false => Err(MirrorError::Busy(format!(
                "another mirror has begun in {}",
                schema.name()
            ))),
        }
    }

    fn try_lock(&mut self, function: &str, class: i32, schema: &Schema) -> Result<bool, MirrorError> {
        let statement = format!("SELECT {function}($1::integer, hashtext($2))");
        Ok(self
            .client
            .query_one(&statement, &[&class, &schema.name()])?
            .try_get(0)?)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.database.cancels().retain(|(number, _)| *number != self.number);
    }
}

impl Deref for Connection<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
