//! Planted faults: each leaves out one carry or one mask. Tests show that every one of them is
//! found; nothing of this is left in any other build.

use crate::word::Word;

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The carry out of a limb of a field element.
    Carry(usize),
    /// The carry out of an upper column of a product.
    UpperCarry(usize),
    /// The carry out of a column of whole products.
    WideCarry(usize),
    /// As `TopFold` and `TopMask`, of whole products.
    WideTopFold,
    WideTopMask,
    /// What a column of a product with signed halves begins with.
    #[cfg(test)]
    Start(usize),
    /// What a field product has above 2^260.
    AboveFold,
    /// What a field product has above 2^256.
    TopFold,
    /// The mask that takes this from the highest limb.
    TopMask,
    /// What a number has above 2^256 before it is made normal.
    NormalFold,
    /// The last subtraction of p.
    NormalSubtraction,
    /// The carry out of a column of a scalar product.
    ScalarCarry(usize),
    /// The carry out of a limb of a scalar product's result.
    ScalarResultCarry(usize),
    /// The carry out of a column of the rounded quotients of the lattice.
    QuotientCarry(usize),
    /// The carry out of a limb of a half.
    HalfCarry(usize),
    /// Making the first or the second half odd.
    Odd(usize),
    /// The range of a half.
    HalfRange,
    /// A key's x coordinate below p.
    KeyRange,
    /// An r in its range, above 0.
    RRange,
    RZero,
    /// An s in its range, above 0, at most half of n.
    SRange,
    SZero,
    /// The first byte of a key.
    KeyPrefix,
    /// The byte that says the parity of a tweaked point.
    ParityRange,
    /// An r that may stand for two x coordinates.
    SmallR,
    /// Whether the y that the result demands of the key is a root.
    Root,
    /// A denominator of 0.
    ZeroDenominator,
    /// The inverse of a denominator of 0 is put to 1.
    ZeroReplaced,
    /// A special case of the walk, or of the sum of its result and the generator's.
    ComparisonZero,
    /// A multiple of the key, or of the generator, that is not on its curve.
    OffCurve(usize),
    /// The parity of the key's y.
    KeyParity,
    /// The parity of the result's y.
    ResultParity,
    /// One of the doublings between the tables of a key.
    BlockDoubling,
    /// The table of a block other than the first.
    KeyBlock,
    /// What the other blocks of a key, or positions of the generator, add to the first.
    BlockSum,
    /// The special cases of the tables of the other blocks.
    BlockUnsure,
    /// The order of the checks.
    Order,
}

/// Whether the fault is planted on this thread, for words of a single lane alone: vectors go
/// without, since the branches would make their code large.
#[inline(always)]
pub(crate) fn is_planted<W: Word>(fault: Fault) -> bool {
    #[cfg(test)]
    return W::LANES == 1 && tests_plant(fault);
    #[cfg(not(test))]
    {
        let _ = fault;
        false
    }
}

#[cfg(test)]
#[inline(never)]
fn tests_plant(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

#[cfg(test)]
thread_local! {
    /// The fault that is planted.
    pub(crate) static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}
