//! Jobs that borrow: `cargo run --release -p blockmill-pool --example scope`.
//!
//! Each job counts the words of one part of a text. The jobs borrow the text, and each writes its
//! count into its own element of a vector on the stack of `main`.

#![allow(clippy::print_stdout, reason = "the counts are the output")]

use blockmill_pool::{ThreadPool, ThreadPoolOptions, contain};

fn main() -> std::io::Result<()> {
    let pool = ThreadPool::new(&ThreadPoolOptions::default())?;
    let text: String = (0..200_000).map(|line| format!("this is line {line}\n")).collect();
    let lines: Vec<&str> = text.lines().collect();

    let parts: Vec<&[&str]> = lines.chunks(50_000).collect();
    let mut counts = vec![0; parts.len()];
    pool.scope(|scope| {
        for (part, count) in parts.iter().zip(&mut counts) {
            scope.spawn(move || *count = part.iter().map(|line| line.split(' ').count()).sum());
        }
    });
    // All jobs have ended, so the borrows have ended too.
    println!("{} workers: words in each part: {counts:?}", pool.workers());
    assert_eq!(counts.iter().sum::<usize>(), 800_000);

    // Jobs may start jobs. A panic of a job comes out of the scope, after all jobs have ended.
    let outcome = contain(|| {
        pool.scope(|scope| {
            scope.spawn(|| {
                scope.spawn(|| panic!("an inner job"));
            });
        });
    });
    if let Err(panic) = outcome {
        println!("the scope panicked with the message {:?}", panic.message());
    }
    Ok(())
}
