//! Blocks and transactions, validated with the coins that they spend.

mod conformance;
mod conformance_rows;
mod given_chain;
mod positions;
mod real_blocks;
mod transactions;
