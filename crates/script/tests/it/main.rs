//! This crate beside the kernel library.

mod both;
mod signet;
