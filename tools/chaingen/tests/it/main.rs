//! Generated chains, checked by code that shares nothing with the generator.

mod chains;
mod common;
mod signatures;
