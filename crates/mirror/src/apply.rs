//! What blocks that come and go change in the tables, each time in one transaction.

use crate::change::Change;
use crate::error::MirrorError;
use crate::load::copy_in;
use crate::schema::Schema;
use crate::state::{State, Step};
use crate::table::MirrorTable;
use postgres::{Client, Statement};

/// Changes the tables.
pub(crate) struct Applier<'a> {
    client: &'a mut Client,
    schema: &'a Schema,
    pub(crate) state: State,
    /// Removes coins. None without the table.
    remove: Option<Statement>,
    /// Remove the rows of a height.
    leave: Vec<(MirrorTable, Statement)>,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(client: &'a mut Client, schema: &'a Schema, state: State) -> Result<Self, MirrorError> {
        let (mut remove, mut leave) = (None, Vec::new());
        for &table in &state.tables {
            let relation = schema.relation(table.name());
            if table == MirrorTable::Coins {
                remove = Some(client.prepare(&format!(
                    "DELETE FROM {relation} AS coin USING unnest($1::bytea[], $2::bigint[]) AS gone (txid, vout)
                        WHERE coin.txid = gone.txid AND coin.vout = gone.vout"
                ))?);
            } else {
                leave.push((
                    table,
                    client.prepare(&format!("DELETE FROM {relation} WHERE height = $1"))?,
                ));
            }
        }
        Ok(Self {
            client,
            schema,
            state,
            remove,
            leave,
        })
    }

    /// Makes a change, and notes the block after it.
    ///
    /// # Errors
    /// Those of the database, and that the tables are not what they were left as.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), MirrorError> {
        let mut transaction = self.client.transaction()?;
        self.state
            .advance(&mut transaction, self.schema, Step::Follow, change.tip)?;
        let damaged = |table: MirrorTable, found: u64, wanted: u64| {
            let (name, anew) = (self.schema.relation(table.name()), self.schema.anew());
            let (height, hash) = (change.tip.height, change.tip.hash);
            MirrorError::Corrupt(format!(
                "{name} has {found} of {wanted} rows that go before block {hash} at height {height}: somebody else has \
                 changed it; {anew}"
            ))
        };
        if let Some(height) = change.left {
            for (table, statement) in &self.leave {
                let gone = transaction.execute(statement, &[&i64::from(height)])?;
                let has_block = *table == MirrorTable::Blocks && height >= self.state.from;
                if has_block && gone != 1 {
                    return Err(damaged(*table, gone, 1));
                }
            }
        }
        if let Some(remove) = &self.remove {
            for (outpoints, are_there) in [(&change.spent, true), (&change.overwritten, false)] {
                if outpoints.txids.is_empty() {
                    continue;
                }
                let gone = transaction.execute(remove, &[&outpoints.txids, &outpoints.vouts])?;
                let wanted = outpoints.txids.len() as u64;
                if are_there && gone != wanted {
                    return Err(damaged(MirrorTable::Coins, gone, wanted));
                }
            }
        }
        for rows in &change.rows {
            copy_in(&mut transaction, self.schema, rows)?;
        }
        Ok(transaction.commit()?)
    }
}
