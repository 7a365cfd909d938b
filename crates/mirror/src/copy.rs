//! Rows in the binary form of `COPY`.

use blockmill_tables::batch::{Batch, Cell, ColumnType, Kind};

/// What a copy begins with: the signature, no flags, no extension.
pub(crate) const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What a copy ends with, in place of a number of columns.
pub(crate) const END: &[u8] = &(-1i16).to_be_bytes();

/// The length that stands for no value.
const NULL: [u8; 4] = (-1i32).to_be_bytes();

/// From the beginning of 1970 to that of 2000, with which the moments of PostgreSQL begin.
const SECONDS_TO_2000: i64 = 946_684_800;

/// The type of a column. Whole numbers have 64 bits: those of 32 bits without a sign do not fit
/// into 32 bits with one.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "boolean",
        Kind::U32 | Kind::U64 | Kind::I64 => "bigint",
        Kind::F64 => "double precision",
        Kind::Time => "timestamp with time zone",
        Kind::Id | Kind::Hex => "bytea",
        Kind::Text => "text",
    }
}

/// Rows as `COPY` takes them, without head and end.
pub(crate) fn tuples(rows: &Batch, columns: &[ColumnType]) -> Vec<u8> {
    let mut tuples = Vec::with_capacity(rows.memory());
    rows.for_each_row(|row| {
        tuples.extend((row.len() as i16).to_be_bytes());
        for (column, cell) in columns.iter().zip(row) {
            match cell {
                None => tuples.extend(NULL),
                Some(cell) => write_cell(*cell, column.kind, &mut tuples),
            }
        }
    });
    tuples
}

fn write_cell(cell: Cell<'_>, kind: Kind, tuples: &mut Vec<u8>) {
    match cell {
        Cell::Bool(yes) => with_length(&[yes.into()], tuples),
        // No number of a chain has the highest bit.
        Cell::Unsigned(number) => with_length(&number.cast_signed().to_be_bytes(), tuples),
        Cell::Signed(number) => with_length(&number.to_be_bytes(), tuples),
        Cell::Float(number) => with_length(&number.to_be_bytes(), tuples),
        Cell::Time(seconds) => {
            let seconds = i64::from(seconds) - SECONDS_TO_2000;
            with_length(&(seconds * 1_000_000).to_be_bytes(), tuples);
        }
        Cell::Id(id) => with_length(&id, tuples),
        Cell::Text(digits) if kind == Kind::Hex => {
            tuples.extend(((digits.len() / 2) as u32).to_be_bytes());
            tuples.extend(digits.as_bytes().chunks_exact(2).map(byte_of));
        }
        Cell::Text(text) => with_length(text.as_bytes(), tuples),
    }
}

fn with_length(bytes: &[u8], tuples: &mut Vec<u8>) {
    tuples.extend((bytes.len() as u32).to_be_bytes());
    tuples.extend(bytes);
}

/// The byte that two digits stand for, which are digits of hex.
fn byte_of(digits: &[u8]) -> u8 {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a' - 10),
    };
    digit(digits[0]) << 4 | digit(digits[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::{Coin, Network, OutPoint, Txid};
    use blockmill_tables::coin_row;

    #[test]
    fn digits_become_their_bytes() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(format!("{byte:02x}").as_bytes()), byte);
        }
    }

    #[test]
    fn a_coin_is_a_tuple() {
        let mut id = [0; 32];
        id[0] = 0xab;
        let outpoint = OutPoint {
            txid: Txid(id),
            vout: 7,
        };
        let coin = Coin {
            value: 5,
            height: 3,
            is_coinbase: true,
            script_pubkey: [0x6a, 0xff].into(),
        };
        let rows = coin_row::rows_with_times([(outpoint, coin, Some(946_684_801))], Network::Regtest);
        let tuple = tuples(&rows, coin_row::TABLE.columns);
        id.reverse();
        let mut expected = Vec::new();
        expected.extend(9i16.to_be_bytes());
        for field in [
            &id[..],
            &7i64.to_be_bytes(),
            &3i64.to_be_bytes(),
            &1_000_000i64.to_be_bytes(),
            &[1],
            &5i64.to_be_bytes(),
            &[0x6a, 0xff],
            b"nulldata",
        ] {
            expected.extend((field.len() as u32).to_be_bytes());
            expected.extend(field);
        }
        expected.extend(NULL);
        // Whatever Core calls the script.
        let word = expected.len() - NULL.len() - b"nulldata".len() - 4;
        assert_eq!(tuple[..word], expected[..word]);
        assert_eq!(tuple[tuple.len() - 4..], NULL);
    }
}
