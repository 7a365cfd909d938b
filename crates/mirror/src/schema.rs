//! The tables of a mirror, their indexes and views. The columns are those of `blockmill_tables`.

use crate::copy::type_of;
use crate::table::MirrorTable;
use blockmill_tables::batch::ColumnType;

/// The version of the schema. Another one is made anew.
pub(crate) const VERSION: i32 = 1;

/// The names of the indexes of a table, whether they are unique, and what they are on. A script may
/// be longer than what an index holds, so its hash is there.
fn indexes(table: MirrorTable) -> &'static [(&'static str, bool, &'static str)] {
    const BY_HEIGHT: &str = "USING brin (height) WITH (autosummarize = on)";
    match table {
        MirrorTable::Coins => &[
            ("coins_by_outpoint", true, "(txid, vout)"),
            ("coins_by_script", false, "(sha256(script))"),
        ],
        MirrorTable::Blocks => &[
            ("blocks_by_height", true, "(height)"),
            ("blocks_by_hash", true, "(block_hash)"),
        ],
        // Ids of the first coinbases come twice (BIP 30).
        MirrorTable::Transactions => &[
            ("transactions_by_txid", false, "(txid)"),
            ("transactions_by_height", false, BY_HEIGHT),
        ],
        MirrorTable::Inputs => &[
            ("inputs_by_outpoint", false, "(txid, vout)"),
            ("inputs_by_spending_txid", false, "(spending_txid)"),
            ("inputs_by_script", false, "(sha256(script))"),
            ("inputs_by_height", false, BY_HEIGHT),
        ],
        MirrorTable::Outputs => &[
            ("outputs_by_outpoint", false, "(txid, vout)"),
            ("outputs_by_script", false, "(sha256(script))"),
            ("outputs_by_height", false, BY_HEIGHT),
        ],
    }
}

/// The schema of a database that the tables are in.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    name: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The schema as a part of a statement.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// What a relation of the schema is called in a statement.
    pub(crate) fn relation(&self, name: &str) -> String {
        format!("{}.{name}", self.quoted())
    }

    /// What makes the tables and views, and those of the mirror itself.
    pub(crate) fn create(&self, tables: &[MirrorTable]) -> String {
        let mut statements = vec![
            format!(
                "CREATE TABLE {} (
                    one boolean PRIMARY KEY DEFAULT true CHECK (one),
                    schema_version integer NOT NULL,
                    network text NOT NULL,
                    source text NOT NULL,
                    tables text[] NOT NULL,
                    blocks_from bigint NOT NULL,
                    step text NOT NULL,
                    height bigint NOT NULL,
                    block_hash bytea NOT NULL,
                    changed timestamp with time zone NOT NULL DEFAULT now())",
                self.relation("mirror")
            ),
            format!(
                "CREATE TABLE {} (step text NOT NULL, after bytea NOT NULL, upto bytea NOT NULL)",
                self.relation("mirror_loaded")
            ),
        ];
        for table in tables {
            let columns = table.table().columns.iter().map(declaration);
            let columns: Vec<String> = columns.collect();
            let relation = self.relation(table.name());
            statements.push(format!("CREATE TABLE {relation} ({})", columns.join(", ")));
        }
        statements.extend(self.views(tables));
        statements.join(";\n")
    }

    fn views(&self, tables: &[MirrorTable]) -> Vec<String> {
        let has = |table| tables.contains(&table);
        let mut views = Vec::new();
        if has(MirrorTable::Coins) {
            views.push(format!(
                "CREATE VIEW {} AS
                    SELECT script, address, count(*) AS coins, sum(value)::bigint AS value
                    FROM {} GROUP BY script, address",
                self.relation("balances"),
                self.relation("coins")
            ));
        }
        if has(MirrorTable::Outputs) && has(MirrorTable::Inputs) {
            views.push(format!(
                "CREATE VIEW {} AS
                    SELECT script, address, height, block_time, txid, value FROM {}
                    UNION ALL
                    SELECT script, address, height, block_time, spending_txid, -value FROM {} WHERE script IS NOT NULL",
                self.relation("history"),
                self.relation("outputs"),
                self.relation("inputs")
            ));
        }
        views
    }

    /// What makes the indexes that are not there, each with its name.
    pub(crate) fn indexes(&self, tables: &[MirrorTable]) -> Vec<(&'static str, String)> {
        let of_table = |&table: &MirrorTable| {
            let relation = self.relation(table.name());
            indexes(table).iter().map(move |&(name, is_unique, on)| {
                let kind = if is_unique { "UNIQUE INDEX" } else { "INDEX" };
                (name, format!("CREATE {kind} IF NOT EXISTS {name} ON {relation} {on}"))
            })
        };
        tables.iter().flat_map(of_table).collect()
    }

    /// What empties the tables.
    pub(crate) fn truncate(&self, tables: &[MirrorTable]) -> String {
        let names = tables.iter().map(|table| table.name()).chain(["mirror_loaded"]);
        let relations: Vec<String> = names.map(|name| self.relation(name)).collect();
        format!("TRUNCATE {}", relations.join(", "))
    }

    /// What copies rows into a table.
    pub(crate) fn copy(&self, table: MirrorTable) -> String {
        format!("COPY {} FROM STDIN (FORMAT binary)", self.relation(table.name()))
    }

    /// How a user begins anew.
    pub(crate) fn anew(&self) -> String {
        format!(
            "to begin anew: DROP SCHEMA {} CASCADE in that database, then the same call; or name another --schema",
            self.quoted()
        )
    }
}

fn declaration(column: &ColumnType) -> String {
    let rest = if column.is_nullable { "" } else { " NOT NULL" };
    format!("{} {}{rest}", column.name, type_of(column.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_export_and_names_are_quoted() {
        let schema = Schema::new("my \"own\"");
        let create = schema.create(&MirrorTable::ALL);
        assert!(create.contains("CREATE TABLE \"my \"\"own\"\"\".coins (txid bytea NOT NULL, vout bigint NOT NULL, "));
        assert!(create.contains("address text)"));
        for table in MirrorTable::ALL {
            for column in table.table().columns {
                assert!(create.contains(&format!("{} {}", column.name, type_of(column.kind))));
            }
        }
        // A view needs its tables.
        let blocks = schema.create(&[MirrorTable::Blocks, MirrorTable::Outputs]);
        assert!(!blocks.contains("VIEW"), "{blocks}");
    }
}
