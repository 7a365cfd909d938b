//! Whether the tables are at the block that the table `mirror` names.
//!
//! A mirror that goes on from another block puts blocks in twice, or leaves some out. The tables of
//! blocks have a row of each block, from the first to the one that is named, so their ends show it.
//! The indexes on heights find them: the whole of one that is BRIN. Coins have no such index, and
//! need none: a block that comes again spends coins that are gone, or makes coins that are there.

use crate::error::MirrorError;
use crate::schema::Schema;
use crate::state::State;
use crate::table::MirrorTable;
use postgres::Client;

/// # Errors
/// That a table begins or ends with another block.
pub(crate) fn check_heights(client: &mut Client, schema: &Schema, state: &State) -> Result<(), MirrorError> {
    let (first, last) = (i64::from(state.from), i64::from(state.tip.height));
    let has_blocks = first <= last;
    let mut transaction = client.transaction()?;
    // However few rows the server expects, the index is faster.
    transaction.batch_execute("SET LOCAL enable_seqscan = off")?;
    let tables = state.tables.iter().filter(|table| **table != MirrorTable::Coins);
    for relation in tables.map(|table| schema.relation(table.name())) {
        let mut has = |sign: &str, height: i64| {
            let statement = format!("SELECT EXISTS (SELECT 1 FROM {relation} WHERE height {sign} $1)");
            let row = transaction.query_one(&statement, &[&height])?;
            row.try_get::<_, bool>(0)
        };
        let is_whole = !has("<", first)?
            && !has(">", last)?
            // Nothing is between the two where there are no blocks.
            && (!has_blocks || has("=", first)? && has("=", last)?);
        if !is_whole {
            let (mirror, anew) = (schema.relation("mirror"), schema.anew());
            return Err(MirrorError::Corrupt(format!(
                "{relation} does not have the blocks from height {first} to {last} alone, as {mirror} says: somebody \
                 else has changed one of them; {anew}"
            )));
        }
    }
    Ok(transaction.commit()?)
}
