//! The command from outside: its output, its files, its status. And the project: its documents and
//! the layers of its crates.

mod amounts;
mod audit;
mod balance;
mod coin;
mod common;
mod conformance;
mod damage;
mod demo;
mod doctor;
mod documents;
mod export;
mod export_blocks;
mod generated;
mod headers;
mod hostile_memory;
mod layering;
mod logs;
mod lost_parts;
mod manners;
mod memory;
mod paths;
mod readers;
mod real_chains;
mod refused_headers;
mod signals;
mod signatures;
mod snapshots;
mod soak;
mod stores;
mod terminals;
mod usage;
mod verify;
mod verify_files;
mod worst_blocks;
mod written_files;
