//! The input fetcher: many threads read coins from a store before the coins are used.
//!
//! ```
//! use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
//! use blockmill_coins::{CoinStore, FlushClock, HashKey, MemoryStore, Tip};
//! use blockmill_fetch::{Fetcher, Options};
//! use blockmill_pool::{ThreadPool, ThreadPoolOptions};
//! use std::sync::Arc;
//!
//! let outpoint = |vout| OutPoint { txid: Txid([7; 32]), vout };
//! let coin = Coin { value: 5, height: 1, is_coinbase: false, script_pubkey: Box::new([]) };
//! let store = Arc::new(MemoryStore::default());
//! let tip = Tip { hash: BlockHash([0; 32]), height: 1 };
//! store.commit(&[(outpoint(3), Some(coin.clone()))], &tip)?;
//!
//! let pool = ThreadPool::new(&ThreadPoolOptions::workers(1))?;
//! let fetcher = Fetcher::new(&pool, 0, store, FlushClock::default(), &Options::default());
//! // With a cache: `CoinsCache::hash_key`.
//! let key = HashKey::random();
//! let fetch = fetcher.begin(vec![key.hashed(&outpoint(2)), key.hashed(&outpoint(3))]);
//! let found = fetch.finish();
//! assert_eq!((found.coins.len(), &found.coins[0].coin), (1, &coin));
//! assert!(found.complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Fetcher`] serves *fetches*. Each fetch is a list of items that stand for outpoints
//! ([`Wanted`]), usually the inputs of a block that will be connected soon. Several fetches may run
//! at once; the oldest is served first. A thread that serves a fetch claims a range of its items,
//! asks for their outpoints, and reads these from the store in one batch. It keeps what it found to
//! itself until the range is done.
//!
//! # Threads
//!
//! - While reads are fast (the store answers from memory), the workers of a pool read, and the
//!   thread that waits for the fetch.
//! - When reads block, workers would leave their cores idle. Then *readers* take over: threads that
//!   the fetcher owns, which only read. More reads are in flight then than there are cores. The
//!   fetcher decides by the times of the ranges (`pace`).
//!
//! # Results are hints
//!
//! A coin that was read may be spent before it is used. So each coin comes with the epoch of the
//! store before its read began ([`Fetched::read_epoch`]), and the cache refuses a stale coin
//! ([`CoinsCache::insert_if_fresh_read`](blockmill_coins::CoinsCache::insert_if_fresh_read)). A
//! failed read leaves its coins out. The thread that needs such a coin reads it again, and gets the
//! error.
//!
//! Source: Bitcoin Core's pull request 31132.

mod fetcher;
mod job;
mod pace;

pub use fetcher::{Fetch, Fetcher, Options, Statistics};
pub use job::{Fetched, FoundCoins, Wanted};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
