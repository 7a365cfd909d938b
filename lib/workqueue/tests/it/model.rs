//! Any order of submission and collection does what a list of numbers would do.

use blockmill_workqueue::{Handler, Help, Options, Panicked, Requester, WorkQueue};
use proptest::prelude::*;
use std::collections::BTreeMap;

struct Negate;

impl Handler for Negate {
    type Job = i64;

    fn handle(&self, job: &mut i64) {
        assert_ne!(*job % 13, 12, "unlucky");
        *job = -*job;
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(u8),
    Next,
    TryNext,
    Any,
    TryAny,
    /// Drops the requester and makes another.
    Anew,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..20u8).prop_map(Step::Submit),
        6 => Just(Step::Next),
        3 => Just(Step::TryNext),
        6 => Just(Step::Any),
        3 => Just(Step::TryAny),
        1 => Just(Step::Anew),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Jobs in flight by their tickets.
#[derive(Default)]
struct Model {
    in_flight: BTreeMap<u64, i64>,
    submitted: u64,
}

impl Model {
    fn submit(&mut self, requester: &mut Requester<Negate>, jobs: u8) {
        for _ in 0..jobs {
            let job = self.submitted as i64;
            let full = self.in_flight.len() == requester.capacity();
            match requester.submit(job) {
                Ok(ticket) => {
                    assert!(!full);
                    assert_eq!(ticket.0, self.submitted);
                    self.in_flight.insert(ticket.0, job);
                    self.submitted += 1;
                }
                Err(back) => assert!(full && back.0 == job),
            }
            assert_eq!(requester.in_flight(), self.in_flight.len());
        }
    }

    /// Checks a collected result and its ticket.
    fn collected(&mut self, result: Option<Result<(u64, i64), Panicked>>, next: bool, waits: bool) {
        let first = self.in_flight.keys().next().copied();
        let Some(result) = result else {
            return assert!(!waits || first.is_none());
        };
        let ticket = match &result {
            Ok((ticket, _)) => *ticket,
            Err(panicked) => panicked.ticket.0,
        };
        if next {
            assert_eq!(Some(ticket), first);
        }
        let job = self.in_flight.remove(&ticket).unwrap();
        assert_eq!(result.is_err(), job % 13 == 12);
        if let Ok((_, result)) = result {
            assert_eq!(result, -job);
        }
    }
}

fn check(options: &Options, steps: &[Step]) {
    let queue = WorkQueue::with_own_threads(Negate, options).unwrap();
    let mut requester = queue.requester();
    let mut model = Model::default();
    for &step in steps {
        macro_rules! collect {
            ($collect:ident, $next:expr, $waits:expr) => {{
                let result = requester
                    .$collect()
                    .map(|done| done.map(|done| (done.ticket().0, done.take())));
                model.collected(result, $next, $waits);
            }};
        }
        match step {
            Step::Submit(jobs) => model.submit(&mut requester, jobs),
            Step::Next => collect!(collect_next, true, true),
            Step::TryNext => collect!(try_collect_next, true, false),
            Step::Any => collect!(collect_any, false, true),
            Step::TryAny => collect!(try_collect_any, false, false),
            Step::Anew => {
                requester = queue.requester();
                model = Model::default();
            }
        }
    }
    while !model.in_flight.is_empty() {
        let result = requester.collect_next();
        let result = result.map(|done| done.map(|done| (done.ticket().0, done.take())));
        model.collected(result, true, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_order_of_steps(
        workers in 0..4usize,
        slots in 1..9usize,
        help in prop_oneof![Just(Help::Never), Just(Help::WhileWaiting)],
        steps in steps(),
    ) {
        let options = Options { workers: Some(workers), slots_per_worker: Some(slots), help };
        check(&options, &steps);
    }
}
