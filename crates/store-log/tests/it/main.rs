//! Tests of the store from outside.

mod common;
mod contract;
mod damage;
mod disk;
mod faults;
mod model;
mod newest;
mod reads;
mod soak;
