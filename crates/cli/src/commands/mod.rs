//! One module per subcommand. Each returns the exit status, or a `Failure`.

pub(crate) mod coin;
pub(crate) mod connect;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod submit;
pub(crate) mod verify;

/// Threads for a command that has no `--par`.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
