//! A table of bad blocks. `Engine::submit` judges each with Core's word, and then accepts the good
//! block on the other side of the rule's boundary.
//!
//! Each scenario runs on one thread and on four, with a coins cache that holds nothing, next to
//! nothing, and everything, and with signatures verified by libsecp256k1 and in lanes.

mod bodies;
mod coinbases;
mod headers;
mod locks;
mod scenario;
mod scripts;
mod signatures;
mod sigops;
mod spends;
mod transactions;
mod witnesses;

use scenario::Scenario;

/// Builds a scenario and plays it in every configuration.
fn check(describe: impl FnOnce(&mut Scenario)) {
    let mut scenario = Scenario::new();
    describe(&mut scenario);
    scenario.play();
}

#[test]
fn headers() {
    check(headers::describe);
}

#[test]
fn headers_from_the_future() {
    check(headers::describe_future);
}

#[test]
fn bodies() {
    check(bodies::describe);
}

#[test]
fn coinbases() {
    check(coinbases::describe);
}

#[test]
fn coinbase_scripts_of_two_bytes() {
    let mut scenario = Scenario::at(20);
    coinbases::describe_short(&mut scenario);
    scenario.play();
}

#[test]
fn transactions() {
    check(transactions::describe);
}

#[test]
fn witnesses() {
    check(witnesses::describe);
}

#[test]
fn block_weight() {
    check(witnesses::describe_weight);
}

#[test]
fn locks() {
    check(locks::describe);
}

#[test]
fn spends() {
    check(spends::describe);
}

#[test]
fn sigops() {
    check(sigops::describe);
}

#[test]
fn scripts() {
    check(scripts::describe);
}

#[test]
fn signatures() {
    check(signatures::describe);
}

#[test]
fn signatures_of_many_inputs() {
    check(signatures::describe_lowest);
}

#[test]
fn rules_before_scripts() {
    check(scripts::describe_order);
}
