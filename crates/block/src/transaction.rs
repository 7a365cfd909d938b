//! Transactions as views of borrowed bytes.
//!
//! Decoding turns a transaction into offsets: the `*Layout` types, in flat tables for a whole
//! block. The views [`Transaction`], [`Input`], [`Output`] and [`Witness`] read the bytes through
//! these offsets. They borrow the bytes and copy no script.

use crate::coin::{CoinRef, OutPoint};
use crate::hash::{Txid, Wtxid};
use crate::reader::{DecodeError, Reader, compact_size_length};
use sha256_lanes::{Hasher, Message};

/// Offsets of one input, from the start of the decoded bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputLayout {
    outpoint_at: u32,
    script_at: u32,
    script_length: u32,
    witness_at: u32,
    witness_end: u32,
    witness_items: u32,
}

/// Amount and offsets of one output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLayout {
    value: i64,
    script_at: u32,
    script_length: u32,
}

/// Offsets of one transaction, and its ranges in the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionLayout {
    start: u32,
    end: u32,
    first_input: u32,
    input_count: u32,
    first_output: u32,
    output_count: u32,
    /// Length of the witnesses with the two bytes of marker and flag. 0 without witnesses.
    witness_length: u32,
    version: u32,
    lock_time: u32,
}

impl TransactionLayout {
    /// The serialized transaction.
    fn raw<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// The serialized transaction without its witnesses, which it has.
    fn stripped<'a>(&self, bytes: &'a [u8]) -> Message<'a> {
        let raw = self.raw(bytes);
        // version, marker, flag, inputs and outputs, witnesses, lock time
        let lock_time_at = raw.len() - 4;
        let body_end = lock_time_at - (self.witness_length as usize - 2);
        Message::of_slices([&raw[..4], &raw[6..body_end], &raw[lock_time_at..]])
    }
}

/// The ids of one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ids {
    txid: Txid,
    wtxid: Wtxid,
}

/// The tables that decoding fills.
#[derive(Debug, Clone, Default)]
pub(crate) struct DecodedTables {
    pub(crate) transactions: Vec<TransactionLayout>,
    /// As many as there are transactions, once they are hashed.
    ids: Vec<Ids>,
    inputs: Vec<InputLayout>,
    outputs: Vec<OutputLayout>,
}

fn offset32(offset: usize) -> u32 {
    // `check_length` has refused longer bytes.
    offset as u32
}

/// Refuses bytes whose offsets do not fit 32 bits.
pub(crate) fn check_length(bytes: &[u8]) -> Result<(), DecodeError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(DecodeError::TooLong { length: bytes.len() });
    }
    Ok(())
}

impl DecodedTables {
    /// Memory in bytes, unused capacity included.
    pub(crate) fn memory(&self) -> usize {
        self.transactions.capacity() * size_of::<TransactionLayout>()
            + self.ids.capacity() * size_of::<Ids>()
            + self.inputs.capacity() * size_of::<InputLayout>()
            + self.outputs.capacity() * size_of::<OutputLayout>()
    }

    /// Decodes one transaction, as Core's `UnserializeTransaction` with witnesses allowed, and
    /// appends it.
    ///
    /// It has no ids before [`hash_transactions`](Self::hash_transactions).
    pub(crate) fn read_transaction(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let start = reader.offset();
        let first_input = self.inputs.len();
        let first_output = self.outputs.len();
        let version = reader.u32()?;
        let mut flags = 0;
        let mut input_count = self.read_inputs(reader)?;
        if input_count == 0 {
            // The marker of the extended form, or a transaction without inputs and outputs.
            flags = reader.u8()?;
            if flags != 0 {
                input_count = self.read_inputs(reader)?;
                self.read_outputs(reader)?;
            }
        } else {
            self.read_outputs(reader)?;
        }
        let body_end = reader.offset();
        let mut witness_length = 0;
        if flags & 1 != 0 {
            // What is left afterwards is unknown.
            flags ^= 1;
            if !self.read_witnesses(first_input, reader)? {
                return Err(DecodeError::SuperfluousWitness { offset: start });
            }
            // The marker and the flags belong to the witness.
            witness_length = reader.offset() - body_end + 2;
        }
        if flags != 0 {
            return Err(DecodeError::UnknownFlags {
                // After the version and the marker.
                offset: start + 5,
                flags,
            });
        }
        let lock_time = reader.u32()?;
        let end = reader.offset();
        self.transactions.push(TransactionLayout {
            start: offset32(start),
            end: offset32(end),
            first_input: offset32(first_input),
            input_count: offset32(input_count),
            first_output: offset32(first_output),
            output_count: offset32(self.outputs.len() - first_output),
            witness_length: offset32(witness_length),
            version,
            lock_time,
        });
        Ok(())
    }

    /// Computes the ids of all transactions, many at a time. `bytes` are the decoded bytes.
    pub(crate) fn hash_transactions(&mut self, bytes: &[u8]) {
        let Self { transactions, ids, .. } = self;
        let count = transactions.len();
        ids.resize(count, Ids::default());
        let has_witness = |&number: &usize| transactions[number].witness_length != 0;
        let with_witness: Vec<usize> = (0..count).filter(has_witness).collect();
        let whole = transactions.iter().map(|layout| Message::new(layout.raw(bytes)));
        let stripped = with_witness.iter().map(|&number| transactions[number].stripped(bytes));
        Hasher::new().double(whole.chain(stripped), |number, digest| {
            match number.checked_sub(count) {
                None => ids[number].wtxid = Wtxid(digest),
                Some(number) => ids[with_witness[number]].txid = Txid(digest),
            }
        });
        for (ids, layout) in ids.iter_mut().zip(transactions) {
            if layout.witness_length == 0 {
                ids.txid = Txid(ids.wtxid.0);
            }
        }
    }

    fn read_inputs(&mut self, reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
        let count = reader.compact_size()?;
        for _ in 0..count {
            let outpoint_at = reader.offset();
            reader.take(OutPoint::LENGTH)?;
            let script = reader.sized_bytes()?;
            let script_at = reader.offset() - script.len();
            // The sequence number follows the script: it needs no offset of its own.
            reader.take(4)?;
            self.inputs.push(InputLayout {
                outpoint_at: offset32(outpoint_at),
                script_at: offset32(script_at),
                script_length: offset32(script.len()),
                witness_at: 0,
                witness_end: 0,
                witness_items: 0,
            });
        }
        Ok(count)
    }

    fn read_outputs(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.compact_size()? {
            let value = reader.i64()?;
            let script = reader.sized_bytes()?;
            self.outputs.push(OutputLayout {
                value,
                script_at: offset32(reader.offset() - script.len()),
                script_length: offset32(script.len()),
            });
        }
        Ok(())
    }

    /// Reads one witness per input. Returns whether any witness has an item.
    fn read_witnesses(&mut self, first_input: usize, reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
        let mut any = false;
        for input in &mut self.inputs[first_input..] {
            let items = reader.compact_size()?;
            let at = reader.offset();
            for _ in 0..items {
                reader.sized_bytes()?;
            }
            input.witness_at = offset32(at);
            input.witness_end = offset32(reader.offset());
            input.witness_items = offset32(items);
            // A transaction with the flag and without witnesses is refused.
            any |= items > 0;
        }
        Ok(any)
    }

    /// The transaction at `index`. `bytes` are the decoded bytes.
    #[inline]
    pub(crate) fn transaction<'a>(&'a self, bytes: &'a [u8], index: usize) -> Transaction<'a> {
        let layout = &self.transactions[index];
        let inputs = layout.first_input as usize..(layout.first_input + layout.input_count) as usize;
        let outputs = layout.first_output as usize..(layout.first_output + layout.output_count) as usize;
        Transaction {
            bytes,
            layout,
            ids: &self.ids[index],
            inputs: &self.inputs[inputs],
            outputs: &self.outputs[outputs],
        }
    }

    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn output_count(&self) -> usize {
        self.outputs.len()
    }
}

/// A transaction over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Transaction<'a> {
    bytes: &'a [u8],
    layout: &'a TransactionLayout,
    ids: &'a Ids,
    inputs: &'a [InputLayout],
    outputs: &'a [OutputLayout],
}

impl<'a> Transaction<'a> {
    /// Hash without witnesses.
    #[inline]
    pub fn txid(&self) -> Txid {
        self.ids.txid
    }

    /// Hash with witnesses.
    pub fn wtxid(&self) -> Wtxid {
        self.ids.wtxid
    }

    /// Version, unsigned as in Core since 28.
    #[inline]
    pub fn version(&self) -> u32 {
        self.layout.version
    }

    /// Lock time: a height below 500,000,000, else seconds since 1970.
    #[inline]
    pub fn lock_time(&self) -> u32 {
        self.layout.lock_time
    }

    /// Whether any input has a witness.
    pub fn has_witness(&self) -> bool {
        self.layout.witness_length != 0
    }

    /// Whether this has the form of a coinbase: one input, which spends the null outpoint.
    pub fn is_coinbase(&self) -> bool {
        self.inputs.len() == 1 && self.input(0).previous_output().is_null()
    }

    /// The serialized transaction, with its witnesses.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.layout.raw(self.bytes)
    }

    /// Offset in bytes of its first byte from the start of what was decoded, which is its block.
    pub fn offset(&self) -> usize {
        self.layout.start as usize
    }

    /// Length in bytes with witnesses.
    pub fn total_size(&self) -> usize {
        (self.layout.end - self.layout.start) as usize
    }

    /// Length in bytes without witnesses.
    pub fn base_size(&self) -> usize {
        self.total_size() - self.layout.witness_length as usize
    }

    /// Number of inputs.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The input at `index`. Panics if the transaction has none there.
    #[inline]
    pub fn input(&self, index: usize) -> Input<'a> {
        Input {
            bytes: self.bytes,
            layout: &self.inputs[index],
        }
    }

    /// The output at `index`. Panics if the transaction has none there.
    #[inline]
    pub fn output(&self, index: usize) -> Output<'a> {
        Output {
            bytes: self.bytes,
            layout: &self.outputs[index],
        }
    }

    /// The inputs, in order.
    #[inline]
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.inputs.iter().map(move |layout| Input { bytes, layout })
    }

    /// The outputs, in order.
    #[inline]
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.outputs.iter().map(move |layout| Output { bytes, layout })
    }
}

/// An input over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
    layout: &'a InputLayout,
}

impl<'a> Input<'a> {
    /// The outpoint that the input spends.
    #[inline]
    pub fn previous_output(&self) -> OutPoint {
        let at = self.layout.outpoint_at as usize;
        let mut bytes = [0; OutPoint::LENGTH];
        bytes.copy_from_slice(&self.bytes[at..at + OutPoint::LENGTH]);
        OutPoint::from_bytes(&bytes)
    }

    /// Unlocking script.
    #[inline]
    pub fn script_sig(&self) -> &'a [u8] {
        let at = self.layout.script_at as usize;
        &self.bytes[at..at + self.layout.script_length as usize]
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        let at = (self.layout.script_at + self.layout.script_length) as usize;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    /// The witness. Empty if the input has none.
    #[inline]
    pub fn witness(&self) -> Witness<'a> {
        Witness {
            items: &self.bytes[self.layout.witness_at as usize..self.layout.witness_end as usize],
            count: self.layout.witness_items as usize,
        }
    }
}

/// An output over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    bytes: &'a [u8],
    layout: &'a OutputLayout,
}

impl<'a> Output<'a> {
    /// Amount in satoshi, unchecked: it may be out of range.
    #[inline]
    pub fn value(&self) -> i64 {
        self.layout.value
    }

    /// Locking script.
    #[inline]
    pub fn script_pubkey(&self) -> &'a [u8] {
        let at = self.layout.script_at as usize;
        &self.bytes[at..at + self.layout.script_length as usize]
    }

    /// The coin that the output is in a block of this height.
    #[inline]
    pub fn coin(&self, height: u32, is_coinbase: bool) -> CoinRef<'a> {
        CoinRef {
            value: self.value(),
            height,
            is_coinbase,
            script_pubkey: self.script_pubkey(),
        }
    }

    /// Where the locking script begins in the bytes that were decoded.
    #[inline]
    pub fn script_at(&self) -> u32 {
        self.layout.script_at
    }

    /// Length of the serialized output in bytes.
    pub fn size(&self) -> usize {
        let script = self.layout.script_length as usize;
        8 + compact_size_length(script as u64) + script
    }
}

/// The stack of one input's witness, over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Witness<'a> {
    items: &'a [u8],
    count: usize,
}

impl<'a> Witness<'a> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The items, bottom of the stack first.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader::new(self.items);
        // The lengths were checked when the transaction was decoded.
        (0..self.count).map_while(move |_| reader.sized_bytes().ok())
    }

    /// The item on top of the stack, if there are items.
    #[inline]
    pub fn last(&self) -> Option<&'a [u8]> {
        self.iter().last()
    }
}

/// One transaction decoded by itself.
#[derive(Debug, Clone)]
pub struct OwnedTransaction {
    bytes: Vec<u8>,
    tables: DecodedTables,
}

impl OwnedTransaction {
    /// Decodes a transaction that takes up all of `bytes`.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        check_length(&bytes)?;
        let mut tables = DecodedTables::default();
        let mut reader = Reader::new(&bytes);
        tables.read_transaction(&mut reader)?;
        reader.finish()?;
        tables.hash_transactions(&bytes);
        Ok(Self { bytes, tables })
    }

    /// The transaction.
    pub fn view(&self) -> Transaction<'_> {
        self.tables.transaction(&self.bytes, 0)
    }
}
