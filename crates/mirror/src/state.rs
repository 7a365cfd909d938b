//! How far the tables are, in the words of the table `mirror`.

use crate::error::MirrorError;
use crate::schema::{Schema, VERSION};
use crate::table::MirrorTable;
use blockmill_block::BlockHash;
use blockmill_coins::Tip;
use postgres::{Client, Row, Transaction};

/// What is done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The coins of the set are loaded.
    Coins,
    /// The blocks up to that set are loaded.
    Blocks,
    /// Indexes are made.
    Indexes,
    /// Blocks come and go.
    Follow,
}

impl Step {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Coins, "coins"),
        (Self::Blocks, "blocks"),
        (Self::Indexes, "indexes"),
        (Self::Follow, "follow"),
    ];

    pub(crate) fn word(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(step, _)| *step == self);
        found.map_or("", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(_, other)| *other == word);
        found.map(|(step, _)| step)
    }
}

/// How far the tables are.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) network: String,
    pub(crate) tables: Vec<MirrorTable>,
    /// Height of the first block of the tables of blocks.
    pub(crate) from: u32,
    pub(crate) step: Step,
    /// The block that the tables are at, or will be at after the first load.
    pub(crate) tip: Tip,
}

impl State {
    /// What a schema says. None if it has no mirror.
    pub(crate) fn read(client: &mut Client, schema: &Schema) -> Result<Option<Self>, MirrorError> {
        let relation = schema.relation("mirror");
        let there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&relation])?;
        if !there.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        let unclear = || {
            let anew = schema.anew();
            MirrorError::Corrupt(format!("{relation} does not say how far the tables are; {anew}"))
        };
        // The version comes first: those of others may have other columns.
        let version: Option<i32> = only_row(client, &relation, "schema_version")?.and_then(|row| row.try_get(0).ok());
        if version.ok_or_else(unclear)? != VERSION {
            return Err(MirrorError::Usage(format!(
                "the schema {} is of another version of this command; {}",
                schema.name(),
                schema.anew()
            )));
        }
        let columns = "network, tables, blocks_from, step, height, block_hash";
        let row = only_row(client, &relation, columns)?;
        let state = row.as_ref().and_then(Self::of_row).ok_or_else(unclear)?;
        Ok(Some(state))
    }

    fn of_row(row: &Row) -> Option<Self> {
        let names: Vec<String> = row.try_get(1).ok()?;
        let tables = names.iter().map(|name| MirrorTable::of_name(name));
        let tables: Vec<MirrorTable> = tables.collect::<Option<_>>()?;
        let is_twice = |(number, table): (usize, &MirrorTable)| tables[..number].contains(table);
        if tables.is_empty() || tables.iter().enumerate().any(is_twice) {
            return None;
        }
        Some(Self {
            network: row.try_get(0).ok()?,
            tables,
            from: u32::try_from(row.try_get::<_, i64>(2).ok()?).ok()?,
            step: Step::of_word(row.try_get(3).ok()?)?,
            tip: Tip {
                height: u32::try_from(row.try_get::<_, i64>(4).ok()?).ok()?,
                hash: hash_of(row.try_get(5).ok()?)?,
            },
        })
    }

    pub(crate) fn has(&self, table: MirrorTable) -> bool {
        self.tables.contains(&table)
    }

    /// Makes the schema, unless it is there, and everything in it.
    pub(crate) fn create(&self, client: &mut Client, schema: &Schema, source: &str) -> Result<(), MirrorError> {
        let mut transaction = client.transaction()?;
        let quoted = schema.quoted();
        let there = transaction.query_one("SELECT to_regnamespace($1) IS NOT NULL", &[&quoted])?;
        // Who may not make schemas may still have one.
        if !there.try_get::<_, bool>(0)? {
            transaction.batch_execute(&format!("CREATE SCHEMA {quoted}"))?;
        }
        transaction.batch_execute(&schema.create(&self.tables))?;
        let names: Vec<&str> = self.tables.iter().map(|table| table.name()).collect();
        transaction.execute(
            &format!(
                "INSERT INTO {} (schema_version, network, source, tables, blocks_from, step, height, block_hash)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                schema.relation("mirror")
            ),
            &[
                &VERSION,
                &self.network,
                &source,
                &names,
                &i64::from(self.from),
                &self.step.word(),
                &i64::from(self.tip.height),
                &bytes_of(&self.tip.hash),
            ],
        )?;
        Ok(transaction.commit()?)
    }

    /// Empties the tables, and begins with another set.
    pub(crate) fn begin_anew(&mut self, client: &mut Client, schema: &Schema, tip: Tip) -> Result<(), MirrorError> {
        let mut transaction = client.transaction()?;
        transaction.batch_execute(&schema.truncate(&self.tables))?;
        self.advance(&mut transaction, schema, Step::Coins, tip)?;
        Ok(transaction.commit()?)
    }

    /// Goes on with another step.
    pub(crate) fn end_step(&mut self, client: &mut Client, schema: &Schema, next: Step) -> Result<(), MirrorError> {
        let mut transaction = client.transaction()?;
        transaction.execute(
            &format!("DELETE FROM {} WHERE step = $1", schema.relation("mirror_loaded")),
            &[&self.step.word()],
        )?;
        self.advance(&mut transaction, schema, next, self.tip)?;
        Ok(transaction.commit()?)
    }

    /// Notes a step and a block, as a part of a transaction. Nobody else may have done so since.
    pub(crate) fn advance(
        &mut self,
        transaction: &mut Transaction<'_>,
        schema: &Schema,
        step: Step,
        tip: Tip,
    ) -> Result<(), MirrorError> {
        let relation = schema.relation("mirror");
        let moved = transaction.execute(
            &format!(
                "UPDATE {relation} SET step = $1, height = $2, block_hash = $3, changed = now()
                    WHERE step = $4 AND block_hash = $5 AND height = $6"
            ),
            &[
                &step.word(),
                &i64::from(tip.height),
                &bytes_of(&tip.hash),
                &self.step.word(),
                &bytes_of(&self.tip.hash),
                &i64::from(self.tip.height),
            ],
        )?;
        if moved != 1 {
            return Err(MirrorError::Busy(format!(
                "{relation} was changed by somebody else meanwhile; the same call goes on from there"
            )));
        }
        (self.step, self.tip) = (step, tip);
        Ok(())
    }
}

/// The row of a relation that has one, else none.
fn only_row(client: &mut Client, relation: &str, columns: &str) -> Result<Option<Row>, MirrorError> {
    let rows = client.query(&format!("SELECT {columns} FROM {relation} LIMIT 2"), &[])?;
    let mut rows = rows.into_iter();
    let row = rows.next();
    Ok(row.filter(|_| rows.next().is_none()))
}

/// A hash as the tables have it: in the order of its digits.
pub(crate) fn bytes_of(hash: &BlockHash) -> Vec<u8> {
    hash.0.iter().rev().copied().collect()
}

fn hash_of(bytes: &[u8]) -> Option<BlockHash> {
    let mut hash: [u8; 32] = bytes.try_into().ok()?;
    hash.reverse();
    Some(BlockHash(hash))
}
