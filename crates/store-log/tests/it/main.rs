//! Tests of the store from outside.

mod common;
mod contract;
mod damage;
mod faults;
mod model;
