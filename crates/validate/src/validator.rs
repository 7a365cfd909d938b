//! Blocks and transactions, with their scripts.

use crate::block::{Verified, VerifyBlockError, WithoutScripts, validate_without_scripts};
use crate::check_pool::{CheckFailure, CheckPool};
use crate::coins::{GivenCoins, OwnCoins, spent_outputs};
use crate::collected::{CollectedCoins, KnownChain};
use crate::position::BlockPosition;
use blockmill_block::{Block, Transaction};
use blockmill_rules::{
    DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError, spend,
};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// How often the signature checks of a transaction are verified at most: the second time decides
/// what the first had to run again. The rest is a margin.
const VERIFIED_TIMES_MAX: usize = 4;

/// Threads of a validator at most.
const THREADS_MAX: usize = 1_024;

/// How a validator works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidatorOptions {
    /// Threads for the scripts, the caller's included. With one there are no others.
    pub threads: usize,
    /// Whether signatures are verified many at a time, if the verifier can. Else they are verified
    /// one by one, by libsecp256k1 alone.
    pub lanes: bool,
}

impl Default for ValidatorOptions {
    /// The caller's thread alone, and libsecp256k1.
    fn default() -> Self {
        Self {
            threads: 1,
            lanes: false,
        }
    }
}

/// Why a transaction is not verified.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyTransactionError {
    /// The script of an input fails. It is the first such input.
    #[error("the script of input {0} fails")]
    Script(usize),
    /// There is no coin for this input. If it is the number of inputs, there are too many coins.
    #[error("there is no coin for input {0}, or there are too many coins")]
    Missing(usize),
    /// The script verifier failed. This says nothing about the transaction.
    #[error("{0}")]
    Verifier(String),
}

/// Validates blocks and transactions, one after another.
pub struct Validator<V: ScriptVerifier + 'static> {
    verifier: Arc<V>,
    pool: CheckPool<V>,
    lanes: bool,
}

impl<V: ScriptVerifier + 'static> Validator<V> {
    /// A validator with threads of its own.
    ///
    /// # Errors
    /// What the operating system says when it makes no more threads; also for more threads than
    /// 1,024.
    pub fn new(verifier: Arc<V>, options: ValidatorOptions) -> io::Result<Self> {
        if options.threads > THREADS_MAX {
            let words = format!("{} threads are more than {THREADS_MAX}", options.threads);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let pool = CheckPool::new(Arc::clone(&verifier), options.threads)?;
        Ok(Self {
            lanes: options.lanes && pool.can_defer(),
            verifier,
            pool,
        })
    }

    /// Validates a block with its coins: by every rule whose facts are known, then by all its
    /// scripts.
    ///
    /// # Errors
    /// [`VerifyBlockError`]; the first rule that is broken, in Core's order, and of several failing
    /// scripts that of the lowest input.
    pub fn validate_block<E>(
        &mut self,
        block: &Arc<Block>,
        coins: GivenCoins<'_, E>,
        position: &BlockPosition<'_>,
    ) -> Result<Verified, VerifyBlockError<E>> {
        let WithoutScripts { verified, flags, undo } =
            validate_without_scripts(block, coins, OwnCoins::Compared, position, &*self.verifier)?;
        script_verdict(block, self.pool.run(block, &undo, flags, self.lanes).failure)?;
        Ok(Verified {
            lanes: self.lanes,
            ..verified
        })
    }

    /// Validates a block with coins and facts that the caller has collected.
    ///
    /// # Errors
    /// Those of [`validate_block`](Self::validate_block).
    pub fn validate_collected(
        &mut self,
        block: &Arc<Block>,
        coins: &CollectedCoins,
        chain: &KnownChain,
    ) -> Result<Verified, VerifyBlockError> {
        chain.at_position(|position| coins.give(block, |coins| self.validate_block(block, coins, position)))
    }

    /// Runs the scripts of a transaction with coins that the caller has collected. Coins in block
    /// order are those of its inputs.
    ///
    /// # Errors
    /// [`VerifyTransactionError`].
    pub fn verify_transaction_collected(
        &mut self,
        transaction: &Transaction<'_>,
        coins: &CollectedCoins,
        flags: ScriptFlags,
    ) -> Result<(), VerifyTransactionError> {
        let coins = coins
            .of_transaction(transaction)
            .map_err(VerifyTransactionError::Missing)?;
        self.verify_transaction(transaction.raw(), &spent_outputs(coins.coins()), flags)
    }

    /// Runs the scripts of all inputs of a transaction, on this thread. `transaction` is its
    /// serialization with witnesses. `spent` has one output per input. No other rule is checked.
    ///
    /// # Errors
    /// [`VerifyTransactionError`].
    pub fn verify_transaction(
        &mut self,
        transaction: &[u8],
        spent: &[SpentOutput<'_>],
        flags: ScriptFlags,
    ) -> Result<(), VerifyTransactionError> {
        let failed = |error: VerifyError| VerifyTransactionError::Verifier(error.to_string());
        let prepared = Arc::new(self.verifier.prepare(transaction, spent).map_err(failed)?);
        let mut deferred = V::Deferred::<usize>::default();
        let mut lowest: Option<(usize, VerifyError)> = None;
        let mut open = 0;
        for input in 0..spent.len() {
            let outcome = match self.lanes {
                true => self
                    .verifier
                    .verify_deferring(&prepared, input, flags, input, &mut deferred),
                false => self.verifier.verify(&prepared, input, flags).map(|()| Outcome::Passed),
            };
            match outcome {
                Ok(Outcome::Passed) => {}
                Ok(Outcome::Deferred) => open += 1,
                Err(error) => {
                    // Those above do not matter, and those below may be open.
                    lowest = Some((input, error));
                    break;
                }
            }
        }
        for _ in 0..VERIFIED_TIMES_MAX {
            if deferred.scripts() == 0 {
                break;
            }
            let mut decided = |input, verdict: Result<(), VerifyError>| {
                open -= 1;
                if let Err(error) = verdict
                    && lowest.as_ref().is_none_or(|(other, _)| input < *other)
                {
                    lowest = Some((input, error));
                }
            };
            self.verifier
                .verify_deferred(&mut deferred, &mut |_| Ok(Arc::clone(&prepared)), &mut decided);
        }
        if open != 0 {
            // A script without a verdict must not pass.
            let words = "deferred signature checks were not verified";
            return Err(VerifyTransactionError::Verifier(words.to_owned()));
        }
        match lowest {
            None => Ok(()),
            Some((input, VerifyError::Invalid)) => Err(VerifyTransactionError::Script(input)),
            Some((_, error)) => Err(failed(error)),
        }
    }

    /// How signature checks were verified so far.
    pub fn signature_counts(&self) -> SignatureCounts {
        self.verifier.signature_counts()
    }

    /// The script verifier.
    pub fn verifier(&self) -> &V {
        &self.verifier
    }
}

/// What the failure of a block's scripts says of the block.
///
/// # Errors
/// [`VerifyBlockError::Reject`] for a script that fails, [`VerifyBlockError::Verifier`] for another
/// failure.
pub fn script_verdict<E>(block: &Block, failure: Option<CheckFailure>) -> Result<(), VerifyBlockError<E>> {
    match failure {
        None => Ok(()),
        Some(CheckFailure {
            input,
            error: VerifyError::Invalid,
        }) => {
            let (transaction, input) = block.locate_input(input);
            Err(spend::SCRIPT_FAILED.in_transaction(transaction).at_input(input).into())
        }
        Some(failure) => Err(VerifyBlockError::Verifier(failure.error.to_string())),
    }
}
