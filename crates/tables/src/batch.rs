//! Rows of flat tables as columns, which each format is made of.

#[cfg(feature = "arrow")]
mod arrow;

#[cfg(feature = "arrow")]
pub use arrow::schema_of;

use crate::set_change::SetChange;
use blockmill_block::{BlockHash, Txid, Wtxid, hex};
use std::io::Write;

/// What a column holds. A value may be missing where the column says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Bool,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A number of 64 bits that may be negative: an amount in satoshi.
    I64,
    /// A number with a fraction.
    F64,
    /// A moment in seconds since 1970.
    Time,
    /// A hash of 32 bytes that names something.
    Id,
    /// A word or an address.
    Text,
    /// Bytes, in digits of hex.
    Hex,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct ColumnType {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a row may have none.
    pub is_nullable: bool,
}

/// A flat table.
#[derive(Debug)]
pub struct Table {
    /// Its name: the rows, in the plural.
    pub name: &'static str,
    /// The word for a row.
    pub row: &'static str,
    /// Its columns.
    pub columns: &'static [ColumnType],
    /// Columns in which hardly a value comes twice: a dictionary of them is of no use.
    pub without_dictionary: &'static [&'static str],
    /// The columns of the index of a database.
    pub index: &'static str,
}

/// How ids are written where a format can do both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// As 64 digits of hex, as Core prints them.
    #[default]
    Hex,
    /// As the 32 bytes that these digits stand for, in their order.
    Binary,
}

/// Texts, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    text: String,
    /// The end of each text; none where it is missing.
    ends: Vec<Option<usize>>,
}

impl Texts {
    fn push(&mut self, text: Option<impl AsRef<str>>) {
        self.text.push_str(text.as_ref().map_or("", AsRef::as_ref));
        self.ends.push(text.map(|_| self.text.len()));
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = (*end)?;
            Some(&self.text[std::mem::replace(&mut start, end)..end])
        })
    }
}

/// The values of a column.
#[derive(Debug)]
pub(crate) enum Values {
    Bool(Vec<Option<bool>>),
    U32(Vec<Option<u32>>),
    U64(Vec<Option<u64>>),
    I64(Vec<Option<i64>>),
    F64(Vec<Option<f64>>),
    Time(Vec<Option<u32>>),
    /// Bytes in the order of their digits in hex.
    Id(Vec<Option<[u8; 32]>>),
    Text(Texts),
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool(Vec::new()),
            Kind::U32 => Self::U32(Vec::new()),
            Kind::U64 => Self::U64(Vec::new()),
            Kind::I64 => Self::I64(Vec::new()),
            Kind::F64 => Self::F64(Vec::new()),
            Kind::Time => Self::Time(Vec::new()),
            Kind::Id => Self::Id(Vec::new()),
            Kind::Text | Kind::Hex => Self::Text(Texts::default()),
        }
    }

    /// Memory in bytes, about.
    fn memory(&self) -> usize {
        match self {
            Self::Bool(values) => size_of_val(&**values),
            Self::U32(values) | Self::Time(values) => size_of_val(&**values),
            Self::U64(values) => size_of_val(&**values),
            Self::I64(values) => size_of_val(&**values),
            Self::F64(values) => size_of_val(&**values),
            Self::Id(values) => size_of_val(&**values),
            Self::Text(texts) => texts.text.len() + size_of_val(&*texts.ends),
        }
    }
}

/// A moment in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) u32);

/// A hash whose bytes are in the order of its digits in hex.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id([u8; 32]);

impl Id {
    /// Of a hash whose bytes are in the order in which Core hashes them.
    pub(crate) fn new(mut hash: [u8; 32]) -> Self {
        hash.reverse();
        Self(hash)
    }
}

/// Bytes, in digits of hex.
#[derive(Debug)]
pub(crate) struct Hex(pub(crate) String);

/// What a row has in a column.
pub(crate) trait Value {
    const KIND: Kind;
    const IS_NULLABLE: bool = false;

    fn push(self, values: &mut Values);
}

/// What may be missing.
pub(crate) trait Plain: Value + Sized {
    fn push_plain(given: Option<Self>, values: &mut Values);
}

macro_rules! plain {
    ($($type:ty => $kind:ident in $values:ident, $given:ident => $plain:expr;)*) => {$(
        impl Plain for $type {
            fn push_plain(given: Option<Self>, values: &mut Values) {
                if let Values::$values(values) = values {
                    values.push(given.map(|$given| $plain));
                }
            }
        }

        impl Value for $type {
            const KIND: Kind = Kind::$kind;

            fn push(self, values: &mut Values) {
                Self::push_plain(Some(self), values);
            }
        }
    )*};
}

plain! {
    bool => Bool in Bool, value => value;
    u32 => U32 in U32, value => value;
    u64 => U64 in U64, value => value;
    i64 => I64 in I64, value => value;
    f64 => F64 in F64, value => value;
    Time => Time in Time, value => value.0;
    Id => Id in Id, value => value.0;
    Txid => Id in Id, value => Id::new(value.0).0;
    BlockHash => Id in Id, value => Id::new(value.0).0;
    Wtxid => Id in Id, value => Id::new(value.0).0;
    &str => Text in Text, text => text;
    String => Text in Text, text => text;
    Hex => Hex in Text, hex => hex.0;
}

impl<V: Plain> Value for Option<V> {
    const KIND: Kind = V::KIND;
    const IS_NULLABLE: bool = true;

    fn push(self, values: &mut Values) {
        V::push_plain(self, values);
    }
}

/// A row of a table, whose fields are its columns.
pub(crate) trait Row {
    const COLUMNS: &'static [ColumnType];

    /// Puts each field into its column.
    fn push(self, columns: &mut [Values]);
}

/// Declares a row.
macro_rules! row {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug)]
        $visibility struct $name {
            $($(#[$of_field])* $visibility $field: $type,)*
        }

        impl $crate::batch::Row for $name {
            const COLUMNS: &'static [$crate::batch::ColumnType] = &[$(
                $crate::batch::ColumnType {
                    name: stringify!($field),
                    kind: <$type as $crate::batch::Value>::KIND,
                    is_nullable: <$type as $crate::batch::Value>::IS_NULLABLE,
                },
            )*];

            fn push(self, columns: &mut [$crate::batch::Values]) {
                let mut columns = columns.iter_mut();
                $(
                    if let Some(values) = columns.next() {
                        $crate::batch::Value::push(self.$field, values);
                    }
                )*
            }
        }
    };
}

pub(crate) use row;

/// Rows as columns.
#[derive(Debug)]
pub struct Batch {
    types: &'static [ColumnType],
    values: Vec<Values>,
    rows: usize,
    /// What the block of each row changes in the set of coins, where rows are completed with that.
    /// It is not written.
    changes: Vec<SetChange>,
}

impl Batch {
    /// No rows, with these columns.
    pub fn new(types: &'static [ColumnType]) -> Self {
        Self {
            types,
            values: types.iter().map(|column| Values::new(column.kind)).collect(),
            rows: 0,
            changes: Vec::new(),
        }
    }

    /// Adds a row of this table.
    pub(crate) fn push<R: Row>(&mut self, row: R) {
        row.push(&mut self.values);
        self.rows += 1;
    }

    /// Adds what the block of the row that was added last changes in the set.
    pub(crate) fn push_change(&mut self, change: SetChange) {
        self.changes.push(change);
    }

    /// What the blocks of the rows change in the set.
    pub(crate) fn changes(&mut self) -> &mut Vec<SetChange> {
        &mut self.changes
    }

    /// Replaces the values of a column; there is one for each row.
    pub(crate) fn replace<V: Value>(&mut self, column: &str, values: Vec<V>) {
        if let Some(position) = self.types.iter().position(|known| known.name == column) {
            let mut replaced = Values::new(self.types[position].kind);
            values.into_iter().for_each(|value| value.push(&mut replaced));
            self.values[position] = replaced;
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory in bytes, about.
    pub fn memory(&self) -> usize {
        let values: usize = self.values.iter().map(Values::memory).sum();
        values + size_of_val(&*self.changes)
    }

    /// Gives the ids of a column to `change`, row by row, and with them those of another.
    #[cfg(feature = "descriptors")]
    pub(crate) fn derive_ids(&mut self, from: &str, to: &str, mut derive: impl FnMut([u8; 32]) -> Id) {
        let position = |name| self.types.iter().position(|column| column.name == name);
        let (Some(from), Some(to)) = (position(from), position(to)) else {
            return;
        };
        if let Values::Id(given) = &self.values[from] {
            let derived = given.iter().map(|given| given.map(|given| derive(given).0));
            self.values[to] = Values::Id(derived.collect());
        }
    }

    /// The rows as lines of CSV, in the form of RFC 4180: hardly a text but the name of a file
    /// needs quotes. What is missing is an empty field; a moment is written as RFC 3339 does.
    pub fn csv(&self) -> Vec<u8> {
        self.lines(b"", b",", b"\n", |_, cell, line| match cell {
            None => {}
            Some(Cell::Time(seconds)) => line.extend(moment(seconds).bytes()),
            Some(Cell::Text(text)) if text.contains([',', '"', '\n', '\r']) => {
                line.extend(format!("\"{}\"", text.replace('"', "\"\"")).bytes());
            }
            Some(cell) => cell.write_plain(line),
        })
    }

    /// The rows as lines of JSON. A moment is a number of seconds since 1970.
    pub fn jsonl(&self) -> Vec<u8> {
        self.lines(b"{", b",", b"}\n", |name, cell, line| {
            // Names of columns are words.
            let _ = write!(line, "\"{name}\":");
            match cell {
                None => line.extend(b"null"),
                Some(Cell::Text(text)) if text.contains(is_escaped) => {
                    // A vector takes everything.
                    let _ = serde_json::to_writer(line, text);
                }
                Some(cell @ (Cell::Text(_) | Cell::Id(_))) => {
                    line.push(b'"');
                    cell.write_plain(line);
                    line.push(b'"');
                }
                Some(cell) => cell.write_plain(line),
            }
        })
    }

    fn lines(
        &self,
        begin: &[u8],
        between: &[u8],
        end: &[u8],
        write: impl Fn(&str, Option<Cell<'_>>, &mut Vec<u8>),
    ) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.memory());
        self.for_each_row(|row| {
            lines.extend(begin);
            for (number, (column, cell)) in self.types.iter().zip(row).enumerate() {
                if number > 0 {
                    lines.extend(between);
                }
                write(column.name, *cell, &mut lines);
            }
            lines.extend(end);
        });
        lines
    }

    /// Gives each row, one after the other.
    pub fn for_each_row(&self, mut take: impl FnMut(&[Option<Cell<'_>>])) {
        let mut columns: Vec<_> = self.values.iter().map(cells).collect();
        let mut row = Vec::with_capacity(columns.len());
        for _ in 0..self.rows {
            row.clear();
            row.extend(columns.iter_mut().map(|column| column.next().flatten()));
            take(&row);
        }
    }
}

/// The head of a table in CSV.
pub fn csv_head(types: &[ColumnType]) -> String {
    let names: Vec<&str> = types.iter().map(|column| column.name).collect();
    names.join(",") + "\n"
}

/// Whether a character of a text is written otherwise in JSON.
fn is_escaped(character: char) -> bool {
    matches!(character, '"' | '\\' | '\0'..='\x1f')
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'a> {
    /// Yes or no.
    Bool(bool),
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// A moment in seconds since 1970.
    Time(u32),
    /// A hash, its bytes in the order of its digits in hex.
    Id([u8; 32]),
    /// A text.
    Text(&'a str),
}

impl Cell<'_> {
    /// Writes what is the same in all lines of text.
    fn write_plain(&self, line: &mut Vec<u8>) {
        // A vector takes everything.
        let _ = match self {
            Self::Bool(value) => write!(line, "{value}"),
            Self::Unsigned(value) => write!(line, "{value}"),
            Self::Signed(value) => write!(line, "{value}"),
            // With a point or an exponent, also where the fraction is zero.
            Self::Float(value) => write!(line, "{value:?}"),
            Self::Time(seconds) => write!(line, "{seconds}"),
            Self::Id(id) => {
                hex::append(id, line);
                Ok(())
            }
            Self::Text(text) => write!(line, "{text}"),
        };
    }
}

/// The values of a column, one after the other.
fn cells(values: &Values) -> Box<dyn Iterator<Item = Option<Cell<'_>>> + '_> {
    match values {
        Values::Bool(values) => Box::new(values.iter().map(|value| value.map(Cell::Bool))),
        Values::U32(values) => Box::new(
            values
                .iter()
                .map(|value| value.map(|value| Cell::Unsigned(value.into()))),
        ),
        Values::U64(values) => Box::new(values.iter().map(|value| value.map(Cell::Unsigned))),
        Values::I64(values) => Box::new(values.iter().map(|value| value.map(Cell::Signed))),
        Values::F64(values) => Box::new(values.iter().map(|value| value.map(Cell::Float))),
        Values::Time(values) => Box::new(values.iter().map(|value| value.map(Cell::Time))),
        Values::Id(values) => Box::new(values.iter().map(|value| value.map(Cell::Id))),
        Values::Text(texts) => Box::new(texts.iter().map(|text| text.map(Cell::Text))),
    }
}

/// A moment as RFC 3339 writes it.
fn moment(seconds: u32) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.into());
    humantime::format_rfc3339_seconds(time).to_string()
}
