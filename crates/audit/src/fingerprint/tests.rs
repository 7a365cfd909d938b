use super::*;
use blockmill_block::CoinRef;
use ethnum::U256;
use proptest::prelude::*;

fn coins(seed: u8, count: u8) -> Vec<(OutPoint, Coin)> {
    (0..count)
        .map(|number| {
            let outpoint = OutPoint {
                txid: Txid([seed ^ number; 32]),
                vout: number.into(),
            };
            let coin = Coin {
                value: i64::from(number) * 1_000,
                height: number.into(),
                is_coinbase: number % 3 == 0,
                script_pubkey: vec![seed; usize::from(number)].into(),
            };
            (outpoint, coin)
        })
        .collect()
}

fn added(fingerprinter: &Fingerprinter, coins: &[(OutPoint, Coin)]) -> Fingerprint {
    let mut adder = Adder::new(fingerprinter);
    for (outpoint, coin) in coins {
        adder.add_coin(outpoint, CoinRef::from(coin));
    }
    adder.finish()
}

/// With lanes and without they are the same.
fn fingerprint(coins: &[(OutPoint, Coin)]) -> Fingerprint {
    let fingerprinter = Fingerprinter::new(&Key::of_number(7));
    if !fingerprinter.has_lanes() {
        eprintln!("short: this machine has no lanes for fingerprints");
    }
    let in_lanes = added(&fingerprinter, coins);
    assert_eq!(added(&fingerprinter.without_lanes(), coins), in_lanes);
    in_lanes
}

#[test]
fn order_and_parts_do_not_matter() {
    let mut coins = coins(5, 100);
    let whole = fingerprint(&coins);
    assert_eq!(whole.coins, 100);
    coins.reverse();
    assert_eq!(fingerprint(&coins), whole);
    for cut in [0, 1, 37, 100] {
        assert_eq!(fingerprint(&coins[..cut]).with(&fingerprint(&coins[cut..])), whole);
    }
}

#[test]
fn the_factor_is_the_polynomial() {
    // Word by word from bytes, with powers by repeated multiplication.
    for length in [0, 7, 8, 11, 12, 33, 34, 35, 57, 58, 80, 81, 200, SCRIPT_SIZE_MAX] {
        let (outpoint, mut coin) = coins(9, 100).remove(99);
        coin.script_pubkey = (0..length).map(|index| index as u8 ^ 0x5a).collect();
        let key = Key::of_number(7);
        let [offset, point] = key.points();
        let mut bytes = outpoint.txid.0.to_vec();
        bytes.extend((coin.height * 2 + u32::from(coin.is_coinbase)).to_le_bytes());
        bytes.resize(2 * WORD, 0);
        let (in_third, rest) = coin.script_pubkey.split_at(length.min(11));
        let mut script = [0; 32];
        script[..in_third.len()].copy_from_slice(in_third);
        let third: U256 = U256::from(outpoint.vout)
            + (U256::from(length as u32) << 32)
            + (U256::from(coin.value.cast_unsigned()) << 46)
            + (U256::from_le_bytes(script) << 97);
        let mut words: Vec<Element> = bytes.chunks(WORD).map(|chunk| word(chunk, 0)).collect();
        let third = third.to_le_bytes();
        words.push(Element(std::array::from_fn(|at| limb(&third, 8 * at))));
        words.extend(rest.chunks(WORD).map(|chunk| word(chunk, 0)));
        words.resize(words.len().max(4).next_multiple_of(2), Element::ZERO);
        let mut power = Element::ONE;
        let mut sum = offset;
        let mut factors = words.into_iter().map(|word| {
            power = power.multiply(point);
            word.plus(power.canonical())
        });
        while let (Some(a), Some(b)) = (factors.next(), factors.next()) {
            sum = sum.canonical().plus(a.multiply(b).canonical());
        }
        let expected = sum.to_bytes();
        let found = fingerprint(&[(outpoint, coin)]);
        assert_eq!(found.product_bytes(), expected, "{length}");
    }
}

#[test]
fn impossible_coins_are_no_possible_ones() {
    let (outpoint, coin) = coins(1, 20).remove(19);
    let with = |value: i64, script: Vec<u8>| {
        let script_pubkey = script.into();
        fingerprint(&[(
            outpoint,
            Coin {
                value,
                script_pubkey,
                ..coin.clone()
            },
        )])
        .product_bytes()
    };
    let script = vec![7; 25];
    let (possible, most) = (with(0, script.clone()), with((1 << VALUE_BITS) - 1, script.clone()));
    let impossible = with(-1, script.clone());
    assert!(possible != most && possible != impossible && most != impossible);
    // An amount whose highest bit would be in the script's first byte.
    let mut changed = script.clone();
    changed[0] = 6;
    for value in [1 << VALUE_BITS, 1 << 62, i64::MIN] {
        assert_eq!(with(value, changed.clone()), impossible);
    }
    assert_eq!(with(0, vec![7; SCRIPT_SIZE_MAX + 1]), impossible);
    assert_ne!(with(0, vec![7; SCRIPT_SIZE_MAX]), impossible);
}

#[test]
fn groups_come_to_the_same() {
    let mut coins = coins(5, 60);
    for number in [3, 20, 21, 40] {
        coins[number].0.txid = coins[number - 1].0.txid;
        coins[number].1.height = coins[number - 1].1.height + u32::from(number == 21);
        coins[number].1.is_coinbase = coins[number - 1].1.is_coinbase;
    }
    let mut grouped = Fingerprint::default();
    Fingerprinter::new(&Key::of_number(7)).add_coins(&coins, &mut grouped);
    assert_eq!(grouped, fingerprint(&coins));
}

#[test]
fn the_longest_script_has_its_words() {
    let (outpoint, coin) = coins(1, 2).remove(1);
    let with = |script: Vec<u8>| {
        let script_pubkey = script.into();
        fingerprint(&[(
            outpoint,
            Coin {
                script_pubkey,
                ..coin.clone()
            },
        )])
    };
    let long = vec![7; SCRIPT_SIZE_MAX];
    let mut changed = long.clone();
    changed[SCRIPT_SIZE_MAX - 1] ^= 0x80;
    assert_ne!(with(long.clone()), with(changed));
    assert_ne!(with(long[..SCRIPT_SIZE_MAX - 1].to_vec()), with(long));
    // Zeros at the end count.
    assert_ne!(with(vec![0; 40]), with(vec![0; 41]));
}

/// Coins whose words have many bits, or hardly any.
fn extreme_coins() -> Vec<(OutPoint, Coin)> {
    let ends = |number: usize, bit: usize| number >> bit & 1 == 1;
    let coin = |number: usize| {
        let fill = |bit: usize| if ends(number, bit) { 0xff } else { 0 };
        let outpoint = OutPoint {
            txid: Txid([fill(0); 32]),
            vout: if ends(number, 1) { u32::MAX } else { 0 },
        };
        let coin = Coin {
            value: if ends(number, 2) { (1 << VALUE_BITS) - 1 } else { 0 },
            height: if ends(number, 3) { u32::MAX >> 1 } else { 0 },
            is_coinbase: ends(number, 4),
            script_pubkey: vec![fill(5); if ends(number, 6) { SCRIPT_START } else { number % 90 }].into(),
        };
        (outpoint, coin)
    };
    (0..256).map(coin).collect()
}

#[test]
fn extreme_numbers_do_not_overflow_in_lanes() {
    // The points of the key at the ends of their range, too.
    let top = Element([u64::MAX - 19, u64::MAX, u64::MAX >> 1]);
    for [offset, point] in [[Element::ONE; 2], [top; 2], [Element::ZERO, top], [top, Element::ONE]] {
        let fingerprinter = Fingerprinter::at([offset, point]);
        let coins = extreme_coins();
        for count in [0, 1, 7, 8, 9, 16, 100, 256] {
            let in_lanes = added(&fingerprinter, &coins[..count]);
            assert_eq!(
                added(&fingerprinter.clone().without_lanes(), &coins[..count]),
                in_lanes,
                "{count}"
            );
        }
    }
}

proptest! {
    #[test]
    fn every_change_is_seen(number in 0usize..60, kind in 0..7, other in 1u8..) {
        let mut changed = coins(3, 60);
        let whole = fingerprint(&changed);
        let (outpoint, coin) = &mut changed[number];
        match kind {
            0 => outpoint.vout ^= u32::from(other) << 13,
            1 => outpoint.txid.0[usize::from(other) % 32] ^= other,
            2 => coin.height ^= u32::from(other),
            3 => coin.is_coinbase ^= true,
            4 => coin.value ^= i64::from(other) << 30,
            5 => {
                let mut script = coin.script_pubkey.to_vec();
                script.push(other);
                coin.script_pubkey = script.into();
            }
            _ => drop(changed.remove(number)),
        }
        prop_assert_ne!(fingerprint(&changed).product_bytes(), whole.product_bytes());
    }

    #[test]
    fn lanes_come_to_the_same(seeds in prop::collection::vec(any::<(u8, u8)>(), 0..40), offset: [u64; 3], point: [u64; 3]) {
        let [offset, point] = [offset, point].map(|limbs| Element(limbs).canonical());
        let fingerprinter = Fingerprinter::at([offset, point]);
        let coins: Vec<_> = seeds.into_iter().flat_map(|(seed, count)| coins(seed, count % 50)).collect();
        prop_assert_eq!(added(&fingerprinter, &coins), added(&fingerprinter.clone().without_lanes(), &coins));
    }

    #[test]
    fn multiplicities_count(number in 0usize..60) {
        let mut coins = coins(3, 60);
        let whole = fingerprint(&coins);
        coins.push(coins[number].clone());
        let twice = fingerprint(&coins);
        prop_assert_ne!(twice.product_bytes(), whole.product_bytes());
        prop_assert_eq!(whole.with(&fingerprint(&coins[60..])), twice);
    }
}
