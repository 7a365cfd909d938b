//! The library as C sees it: the header, and programs in C.

#[path = "../../../../crates/validate/tests/it/cases.rs"]
mod cases;
#[path = "../../../../crates/validate/tests/it/conformance_rows.rs"]
mod conformance_rows;
#[path = "../../../../crates/validate/tests/it/given_chain.rs"]
mod given_chain;
mod header;
mod programs;
