//! The input fetcher: coins are read from a store before they are asked for, on many threads.
//!
//! A [`Fetcher`] serves *fetches*: each is a list of outpoints ([`Wanted`]), usually the inputs of a block that is to be connected soon. Several
//! fetches may be under way; the oldest is served first. Whoever serves one claims a range of it, asks it for the outpoints in that range,
//! reads them from the store in one batch, and keeps what it found by itself until the range is done.
//!
//! # Who reads
//!
//! - While reads are fast (the store answers from memory) the workers of a pool do them, and the thread that waits for the fetch.
//! - When reads block, workers would leave their cores idle. Then *readers* take over: threads of the fetcher's own, which do nothing else. More
//!   reads are in flight then than there are cores. Which of the two it is shows in how long ranges take (`pace`).
//!
//! # What is found is a hint
//!
//! A coin that was read may have been spent before it is used. So each comes with the number of flushes that had reached the store when
//! its read began ([`Fetched::read_epoch`]), and it is for the cache to refuse it ([`CoinsCache::insert_if_fresh_read`](blockmill_coins::CoinsCache::insert_if_fresh_read)). A read that fails is
//! left out: who needs the coin reads it again, and has the error.
//!
//! Source: document 003 of the project's seeds (Bitcoin Core's pull request 31132).
//!
//! ```
//! use blockmill_block::{Coin, OutPoint, Txid};
//! use blockmill_coins::{CoinStore, FlushClock, MemoryStore, Tip};
//! use blockmill_pool::{ThreadPool, ThreadPoolOptions};
//! use blockmill_fetch::{Fetcher, Options};
//! use std::sync::Arc;
//!
//! let outpoint = |vout| OutPoint { txid: Txid([7; 32]), vout };
//! let coin = Coin { value: 5, height: 1, is_coinbase: false, script_pubkey: Box::new([]) };
//! let store = Arc::new(MemoryStore::default());
//! let tip = Tip { hash: blockmill_block::BlockHash([0; 32]), height: 1 };
//! store.commit(&mut [(outpoint(3), Some(coin.clone()))].into_iter(), &tip)?;
//!
//! let pool = ThreadPool::new(&ThreadPoolOptions::workers(1))?;
//! let fetcher = Fetcher::new(&pool, 0, store, FlushClock::default(), &Options::default());
//! let fetch = fetcher.begin(vec![outpoint(2), outpoint(3)]);
//! let found = fetch.finish();
//! assert_eq!((found.coins.len(), &found.coins[0].coin), (1, &coin));
//! assert!(found.complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fetcher;
mod job;
mod pace;

pub use fetcher::{Fetch, Fetcher, Options, Statistics};
pub use job::{Fetched, Found, Wanted};
