//! Reading scripts: their elements, and the forms of locking script in the rules.

/// OP_1NEGATE.
pub const OP_1NEGATE: u8 = 0x4f;
/// OP_1; OP_2 to OP_16 follow.
pub const OP_1: u8 = 0x51;
/// OP_16, the last opcode that pushes.
pub const OP_16: u8 = 0x60;
/// OP_RETURN.
pub const OP_RETURN: u8 = 0x6a;
const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;
const OP_EQUAL: u8 = 0x87;
const OP_HASH160: u8 = 0xa9;

/// One element of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// The opcode.
    pub opcode: u8,
    /// The bytes of the script that it pushes. Empty for opcodes without data.
    pub data: &'a [u8],
}

/// A push that reaches past the end of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenPush;

/// The elements of a script, up to the end or to a push that reaches past it.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    script: &'a [u8],
}

/// The elements of `script`.
pub fn elements(script: &[u8]) -> Elements<'_> {
    Elements { script }
}

impl<'a> Elements<'a> {
    fn next_element(&mut self) -> Option<Element<'a>> {
        let (&opcode, rest) = self.script.split_first()?;
        let length_bytes = match opcode {
            OP_PUSHDATA1 => 1,
            OP_PUSHDATA2 => 2,
            OP_PUSHDATA4 => 4,
            _ => 0,
        };
        // A length field that is cut off is a broken push, too.
        let (length_field, rest) = rest.split_at_checked(length_bytes)?;
        let length = if opcode < OP_PUSHDATA1 {
            usize::from(opcode)
        } else {
            // The field is little-endian, so its last byte is the highest.
            length_field
                .iter()
                .rev()
                .fold(0, |length, &byte| length << 8 | usize::from(byte))
        };
        let (data, rest) = rest.split_at_checked(length)?;
        self.script = rest;
        Some(Element { opcode, data })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, BrokenPush>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.script.is_empty() {
            return None;
        }
        let element = self.next_element().ok_or(BrokenPush);
        if element.is_err() {
            // Nothing after a broken push has a meaning.
            self.script = &[];
        }
        Some(element)
    }
}

/// Appends a push of `data` as Core's script builder makes it: the shortest length field, no
/// opcodes for small numbers.
pub fn push_data(script: &mut Vec<u8>, data: &[u8]) {
    match data.len() {
        length @ 0..=0x4b => script.push(length as u8),
        length @ 0x4c..=0xff => script.extend([OP_PUSHDATA1, length as u8]),
        length @ 0x100..=0xffff => {
            script.push(OP_PUSHDATA2);
            script.extend((length as u16).to_le_bytes());
        }
        length => {
            script.push(OP_PUSHDATA4);
            script.extend((length as u32).to_le_bytes());
        }
    }
    script.extend_from_slice(data);
}

/// The push of a height at the start of a coinbase script (BIP 34).
pub fn height_push(height: u32) -> Vec<u8> {
    match height {
        0 => vec![0],
        // Small numbers have opcodes of their own.
        1..=16 => vec![OP_1 + height as u8 - 1],
        _ => {
            // A number in little endian with a sign bit on top, as short as it can be.
            let mut number = height.to_le_bytes().to_vec();
            number.push(0);
            while number.len() > 1 && number[number.len() - 1] == 0 && number[number.len() - 2] & 0x80 == 0 {
                number.pop();
            }
            let mut script = Vec::new();
            push_data(&mut script, &number);
            script
        }
    }
}

/// Whether a locking script is pay to script hash.
pub fn is_p2sh(script: &[u8]) -> bool {
    matches!(script, [OP_HASH160, 20, .., OP_EQUAL] if script.len() == 23)
}

/// Version and program of a witness program: one small number, then one push of 2 to 40 bytes, and
/// nothing else.
pub fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let [opcode, length, program @ ..] = script else {
        return None;
    };
    let version = match opcode {
        0 => 0,
        OP_1..=OP_16 => opcode - OP_1 + 1,
        _ => return None,
    };
    // The push of the program ends the script.
    let fits = (2..=40).contains(&program.len()) && usize::from(*length) == program.len();
    fits.then_some((version, program))
}

/// The data of the last push in a script of pushes only. Empty for opcodes that push numbers.
/// `None` for a script that does more than push.
pub fn last_push(script: &[u8]) -> Option<&[u8]> {
    let mut last: &[u8] = &[];
    for element in elements(script) {
        match element {
            // Core counts OP_RESERVED as a push here.
            Ok(element) if element.opcode <= OP_16 => last = element.data,
            _ => return None,
        }
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_and_broken_pushes() {
        let read = |script: &[u8]| {
            elements(script)
                .map(|element| element.ok().map(|e| (e.opcode, e.data.to_vec())))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&[2, 7, 8, 0xac]), [Some((2, vec![7, 8])), Some((0xac, vec![]))]);
        assert_eq!(read(&[0x4c, 1, 9]), [Some((0x4c, vec![9]))]);
        assert_eq!(read(&[0x4d, 1, 0, 9]), [Some((0x4d, vec![9]))]);
        assert_eq!(read(&[0x4e, 1, 0, 0, 0, 9]), [Some((0x4e, vec![9]))]);
        for broken in [
            &[1][..],
            &[0x4c],
            &[0x4c, 1],
            &[0x4d, 1],
            &[0x4e, 0, 0, 0],
            &[0x4e, 255, 255, 255, 255],
        ] {
            assert_eq!(read(broken), [None], "{broken:?}");
        }
    }

    #[test]
    fn heights() {
        for (height, script) in [
            (1, vec![0x51]),
            (16, vec![0x60]),
            (17, vec![1, 17]),
            (127, vec![1, 127]),
            (128, vec![2, 128, 0]),
            (255, vec![2, 255, 0]),
            (256, vec![2, 0, 1]),
            (32_767, vec![2, 0xff, 0x7f]),
            (32_768, vec![3, 0, 0x80, 0]),
            (227_931, vec![3, 0x5b, 0x7a, 3]),
        ] {
            assert_eq!(height_push(height), script, "{height}");
        }
    }

    #[test]
    fn forms() {
        let mut p2sh = vec![0xa9, 20];
        p2sh.extend([5; 20]);
        p2sh.push(0x87);
        assert!(is_p2sh(&p2sh));
        p2sh.push(0);
        assert!(!is_p2sh(&p2sh));
        assert_eq!(witness_program(&[0x51, 2, 0x4e, 0x73]), Some((1, &[0x4e, 0x73][..])));
        assert_eq!(witness_program(&[0, 1, 9]), None);
        assert_eq!(witness_program(&[0x60, 2, 9, 9]), Some((16, &[9, 9][..])));
        assert_eq!(witness_program(&[0x61, 2, 9, 9]), None);
        assert_eq!(witness_program(&[0, 2, 9, 9, 9]), None);
        assert_eq!(last_push(&[1, 7, 0x51]), Some(&[][..]));
        assert_eq!(last_push(&[1, 7, 2, 8, 9]), Some(&[8, 9][..]));
        assert_eq!(last_push(&[1, 7, 0xac]), None);
        assert_eq!(last_push(&[1]), None);
        assert_eq!(last_push(&[]), Some(&[][..]));
    }

    proptest! {
        #[test]
        fn pushes_round_trip(data in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            let mut script = Vec::new();
            push_data(&mut script, &data);
            let read: Vec<_> = elements(&script).map(|element| element.unwrap().data).collect();
            prop_assert_eq!(read, [&data[..]]);
        }
    }
}
