//! This crate beside the kernel library.

#[cfg(not(blockmill_without_kernel))]
mod both;
#[cfg(not(blockmill_without_kernel))]
mod signet;
