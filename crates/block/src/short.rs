//! Copies of a few bytes.

/// Copies bytes to as many others. For scripts and parts of scripts: up to 64 bytes take two copies
/// of a known length, which may overlap, instead of a call that copies any length.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_short(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what it copies");
    match from.len() {
        0..4 => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        4..8 => copy_ends::<4>(from, to),
        8..16 => copy_ends::<8>(from, to),
        16..=32 => copy_ends::<16>(from, to),
        33..=64 => copy_ends::<32>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last bytes.
#[inline]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
    // Both copies may overlap: they agree where they do.
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let from: [u8; 200] = std::array::from_fn(|index| index as u8 + 1);
        for length in 0..from.len() {
            for start in [0, 1, 7] {
                let from = &from[start.min(200 - length)..][..length];
                let mut to = [0; 208];
                copy_short(from, &mut to[4..4 + length]);
                assert_eq!(to[4..4 + length], *from);
                assert!(
                    to[..4].iter().chain(&to[4 + length..]).all(|&byte| byte == 0),
                    "{length}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "as long as")]
    fn lengths_that_differ_are_refused() {
        copy_short(&[1, 2], &mut [0; 3]);
    }
}
