use super::*;
use std::io::Cursor;

const MAGIC: Magic = Magic([1, 2, 3, 4]);

const TIP: Tip = Tip {
    hash: BlockHash([9; 32]),
    height: 700,
};

fn coin(number: u32) -> Coin {
    Coin {
        value: i64::from(number) * 1_000,
        height: number % 700,
        is_coinbase: number.is_multiple_of(3),
        script_pubkey: vec![0x51; (number % 50) as usize].into(),
    }
}

/// Coins sorted by key.
fn coins(counts: &[u32]) -> Vec<(OutPoint, Coin)> {
    let ids = (1u8..).map(|number| Txid([number; 32]));
    let outpoints = ids
        .zip(counts)
        .flat_map(|(txid, &count)| (0..count).map(move |vout| OutPoint { txid, vout }));
    outpoints.map(|outpoint| (outpoint, coin(outpoint.vout))).collect()
}

fn write(coins: &[(OutPoint, Coin)]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let mut seen = 0;
    let entries = coins.iter().cloned().map(Ok);
    let count = write_snapshot(&mut out, MAGIC, &TIP, entries, |_, _| seen += 1).unwrap();
    assert_eq!((count, seen), (coins.len() as u64, coins.len()));
    out.into_inner()
}

/// Reads in both ways.
fn read(bytes: &[u8]) -> Result<Vec<(OutPoint, Coin)>, SnapshotError> {
    let one_by_one: Result<Vec<_>, _> = SnapshotReader::new(bytes, MAGIC)?.coins(TIP.height).collect();
    let mut in_chunks: Result<Vec<_>, SnapshotError> = Ok(Vec::new());
    for chunk in SnapshotReader::new(bytes, MAGIC)?.chunks(TIP.height) {
        let coins = chunk.and_then(|chunk| chunk.coins());
        in_chunks = in_chunks.and_then(|mut all| {
            all.extend(coins?);
            Ok(all)
        });
    }
    match (&one_by_one, &in_chunks) {
        (Ok(coins), Ok(others)) => assert_eq!(coins, others),
        (Err(error), Err(other)) => assert_eq!(error.to_string(), other.to_string()),
        _ => panic!("{one_by_one:?} {in_chunks:?}"),
    }
    one_by_one
}

fn refused(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

#[test]
fn what_was_written_is_read() {
    for counts in [&[][..], &[1], &[3, 1, 2], &[300, 1]] {
        let coins = coins(counts);
        let bytes = write(&coins);
        let reader = SnapshotReader::new(&bytes[..], MAGIC).unwrap();
        let metadata = SnapshotMetadata {
            base: TIP.hash,
            coins: coins.len() as u64,
        };
        assert_eq!(*reader.metadata(), metadata);
        assert_eq!(read(&bytes).unwrap(), coins);
    }
}

#[test]
fn outputs_come_in_the_order_of_their_varints() {
    let coins = coins(&[17_000]);
    let bytes = write(&coins);
    // The bytes of Core's keys, computed on their own.
    let mut keys: Vec<(Vec<u8>, u32)> = (0..17_000)
        .map(|vout: u32| {
            let mut key = vec![0x43];
            key.extend([1; 32]);
            write_varint(vout.into(), &mut key);
            (key, vout)
        })
        .collect();
    keys.sort();
    let mut reader = Reader::new(&bytes[METADATA_LENGTH..]);
    reader.take(32).unwrap();
    assert_eq!(reader.compact_size().unwrap(), 17_000);
    let mut order = Vec::new();
    for (_, vout) in keys {
        assert_eq!(reader.compact_size().unwrap() as u32, vout);
        assert_eq!(Coin::read_compressed(&mut reader).unwrap(), coin(vout));
        order.push(vout);
    }
    reader.finish().unwrap();
    let position = |vout| order.iter().position(|&other| other == vout).unwrap();
    assert!(position(16_512) < position(256) && position(255) < position(16_512));
    assert_eq!(read(&bytes).unwrap(), coins);
}

#[test]
fn other_files_are_refused() {
    let bytes = write(&coins(&[2, 1]));
    assert!(refused(b"utxo").contains("not a UTXO snapshot"));
    assert!(refused(&bytes[..40]).contains("the file ends"));
    let changed = |offset: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[offset] = byte;
        refused(&bytes)
    };
    assert!(changed(0, 7).contains("not a UTXO snapshot"));
    assert!(changed(5, 1).contains("version 1"));
    assert!(changed(7, 7).contains("07020304"));
    // One coin more, or fewer, than the file has.
    assert!(changed(43, 4).contains("ends too early"));
    assert!(changed(43, 2).contains("goes on after"));
    assert!(changed(43, 0).contains("goes on after"));
    assert!(changed(43, 1).contains("has 2 coins, of 1"));
}

#[test]
fn impossible_coins_are_refused() {
    let with = |coin: Coin, vouts: &[u32]| {
        let mut bytes = write(&[]);
        bytes[43] = vouts.len() as u8;
        bytes.extend([5; 32]);
        write_compact_size(vouts.len() as u64, &mut bytes);
        for &vout in vouts {
            write_compact_size(vout.into(), &mut bytes);
            coin.write_compressed(&mut bytes);
        }
        bytes
    };
    let good = coin(700);
    assert_eq!(read(&with(good.clone(), &[3, 1])).unwrap()[0].0.vout, 1);
    let high = Coin {
        height: 701,
        ..good.clone()
    };
    assert!(refused(&with(high, &[0])).starts_with("offset 84: coin"));
    let rich = Coin {
        value: MAX_MONEY + 1,
        ..good.clone()
    };
    assert!(refused(&with(rich, &[0])).contains("amount"));
    assert!(refused(&with(good.clone(), &[4, 4])).contains("twice"));
    let mut out_of_order = with(good.clone(), &[1]);
    out_of_order[43] = 2;
    let group = out_of_order[METADATA_LENGTH..].to_vec();
    out_of_order.extend(group);
    assert!(refused(&out_of_order).contains("out of order"));
    let mut empty = with(good, &[1]);
    empty[METADATA_LENGTH + 32] = 0;
    assert!(refused(&empty).contains("has 0 coins"));
}

/// No block has room for so many scripts of one transaction.
#[test]
fn a_transaction_with_too_many_bytes_is_refused() {
    let coin = Coin {
        script_pubkey: vec![0x51; 10_000].into(),
        ..coin(1)
    };
    let with = |count: u32| -> Vec<(OutPoint, Coin)> {
        let outpoints = coins(&[count]).into_iter().map(|(outpoint, _)| outpoint);
        outpoints.map(|outpoint| (outpoint, coin.clone())).collect()
    };
    let most = (GROUP_MAX / 10_020) as u32;
    assert_eq!(read(&write(&with(most))).unwrap().len(), most as usize);
    assert!(refused(&write(&with(most + 10))).contains("are more than a block has room for"));
}

#[test]
fn chunks_are_bounded_in_bytes_and_in_coins() {
    let small = Coin {
        value: 0,
        script_pubkey: Box::default(),
        ..coin(1)
    };
    let many: Vec<(OutPoint, Coin)> = coins(&[20_000; 5])
        .into_iter()
        .map(|(outpoint, _)| (outpoint, small.clone()))
        .collect();
    let bytes = write(&many);
    assert!(bytes.len() < CHUNK);
    let chunks: Vec<SnapshotChunk> = SnapshotReader::new(&bytes[..], MAGIC)
        .unwrap()
        .chunks(TIP.height)
        .map(Result::unwrap)
        .collect();
    let counts: Vec<u64> = chunks.iter().map(|chunk| chunk.coins).collect();
    assert_eq!(counts, [40_000, 40_000, 20_000]);
    assert_eq!(read(&bytes).unwrap(), many);
}

#[test]
fn a_false_length_takes_no_memory() {
    let mut bytes = write(&[]);
    bytes[43..51].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes.extend([5; 32]);
    bytes.push(1);
    bytes.push(0);
    write_varint(2, &mut bytes);
    write_varint(7, &mut bytes);
    // A script of 4 GB.
    write_varint(4_000_000_000, &mut bytes);
    assert!(refused(&bytes).contains("ends too early"));
    let mut reader = SnapshotReader::new(Cursor::new(bytes).chain(io::repeat(7)), MAGIC)
        .unwrap()
        .coins(700);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.reader.buffer.capacity() < 4 * GROUP_MAX);
    assert!(reader.next().is_none());
}
