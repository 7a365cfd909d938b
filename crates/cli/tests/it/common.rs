//! What the acceptance tests share: running the command, reading its answers, block files, data
//! directories, and draws from a seed.

pub(crate) mod blocks;
pub(crate) mod branches;
pub(crate) mod children;
pub(crate) mod core_folder;
pub(crate) mod growth;
pub(crate) mod lying;
pub(crate) mod own_set;
pub(crate) mod python;
pub(crate) mod store;

use blockmill_block::{Block, BlockHash, Header, Magic};
pub(crate) use blockmill_realdata::shared_data;
use growth::sample;
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a run of the command left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Wall time.
    pub(crate) seconds: f64,
}

impl Run {
    pub(crate) fn new(output: Output, start: Instant) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let status = output.status.code();
        Self {
            status: status.unwrap_or_else(|| panic!("{}: {stdout}{stderr}", output.status)),
            stdout,
            stderr,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    /// Fails unless the command ended with `status`.
    #[track_caller]
    pub(crate) fn ends_with(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// The last line of standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self
            .stdout
            .lines()
            .last()
            .unwrap_or_else(|| panic!("no output: {self:#?}"));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Fails unless standard error has all of `texts`.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "not said: {text}: {self:#?}");
        }
        self
    }
}

/// The variable with the emulator of a processor that this machine has not, and its arguments.
const EMULATOR: &str = "BLOCKMILL_TEST_EMULATOR";

/// The command, without arguments.
pub(crate) fn blockmill() -> Command {
    children::prepare();
    let program = env!("CARGO_BIN_EXE_blockmill");
    let Ok(emulator) = std::env::var(EMULATOR) else {
        return Command::new(program);
    };
    let mut words = emulator.split_whitespace();
    let mut command = Command::new(words.next().expect("an emulator"));
    command.args(words).arg(program);
    command
}

/// Fails if something took longer than it may. An emulator may take any time.
#[track_caller]
pub(crate) fn check_seconds(seconds: f64, most: f64) {
    let is_emulated = std::env::var_os(EMULATOR).is_some();
    assert!(is_emulated || seconds < most, "{seconds} seconds");
}

pub(crate) fn run(command: &mut Command) -> Run {
    let start = Instant::now();
    let output = command.output().expect("the command starts");
    Run::new(output, start)
}

/// The variable that names what verifies signatures in lanes.
const BACKEND: &str = "BLOCKMILL_BACKEND";

/// Has a command run with the lanes of plain integers, as on a machine without vectors.
pub(crate) fn without_vectors(command: &mut Command) -> &mut Command {
    command.env(BACKEND, "portable")
}

/// Whether lanes are faster than libsecp256k1 on every processor that has them.
pub(crate) fn has_surely_fast_lanes() -> bool {
    secp256k1_lanes::Backend::detect().is_fast()
}

/// Does work on all items, on a few threads.
pub(crate) fn on_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    const THREADS: usize = 4;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    done.lock().expect("no thread failed").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no thread failed")
}

/// `generate` into a folder. Options may be added.
pub(crate) fn generate_command(out: &Path, profile: &str, blocks: u32) -> Command {
    let mut command = blockmill();
    command.arg("generate").arg("--out").arg(out);
    command.args(["--profile", profile, "--blocks", &blocks.to_string()]);
    command
}

/// Rows of blocks of regtest as lines of JSON; `--out` is left.
pub(crate) fn export_blocks_command() -> Command {
    let mut command = blockmill();
    command.args(["export", "blocks", "--network", "regtest", "--format", "jsonl"]);
    command
}

/// A process that has a data directory until its input ends.
pub(crate) fn holder(data: &Path) -> Child {
    let mut command = blockmill();
    command
        .args(["--log", "json", "submit", "--data"])
        .arg(data)
        .stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A real chain in a new data directory, and its block file. None, with a message, where it is
/// absent.
pub(crate) fn connected_real(file: &str, network: &str) -> Option<(Scratch, PathBuf, PathBuf)> {
    let path = shared_data(&format!("chains/{file}"))?;
    let scratch = Scratch::new();
    let data = scratch.join("data");
    run(&mut connect(&path, &data, network)).ends_with(0);
    Some((scratch, data, path))
}

/// Names in a directory, sorted.
pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What `generate` says of the chain in a folder.
pub(crate) fn manifest(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap()
}

/// Runs a command, which must succeed. Returns the most anonymous memory that it had, in bytes.
pub(crate) fn peak_memory(command: &mut Command) -> u64 {
    let (peak, status) = peak_memory_and_status(command);
    assert!(status.success(), "{command:?}: {status}");
    peak
}

/// Runs a command. Returns the most anonymous memory that it had, in bytes.
pub(crate) fn peak_memory_and_status(command: &mut Command) -> (u64, ExitStatus) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    loop {
        peak = peak.max(sample(child.id(), 0).map_or(0, |now| now.anonymous));
        if let Some(status) = child.try_wait().unwrap() {
            return (peak, status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two chains of 420 blocks that have the first block alone in common.
pub(crate) fn two_chains(scratch: &Scratch) -> [PathBuf; 2] {
    ["7", "8"].map(|seed| {
        let chain = scratch.join(seed);
        let mut generate = generate_command(&chain, "utxo", 420);
        run(generate.args(["--coins", "100", "--inputs", "2", "--seed", seed])).ends_with(0);
        chain
    })
}

/// A data directory with a regtest chain up to a height.
pub(crate) fn connected_to(scratch: &Scratch, name: &str, chain: &Path, height: &str) -> PathBuf {
    let data = scratch.join(name);
    run(connect(chain, &data, "regtest").args(["--stop-at-height", height])).ends_with(0);
    data
}

/// `connect` with JSON at the end; options may be added.
pub(crate) fn connect(blocks: &Path, data: &Path, network: &str) -> Command {
    let mut command = blockmill();
    command.args(["connect", "--network", network, "--json", "--blocks"]);
    command.arg(blocks).arg("--data").arg(data);
    command
}

/// `snapshot load` with JSON at the end. More options may be added, and then the file.
pub(crate) fn load_command(blocks: &Path, data: &Path, network: &str) -> Command {
    let mut command = blockmill();
    command.args(["snapshot", "load", "--json", "--network", network, "--blocks"]);
    command.arg(blocks).arg("--data").arg(data);
    command
}

/// `submit` for regtest; options may be added.
pub(crate) fn submit_command(data: &Path) -> Command {
    let mut command = blockmill();
    command.args(["submit", "--network", "regtest", "--data"]).arg(data);
    command
}

/// `doctor` with JSON.
pub(crate) fn doctor(data: &Path) -> Run {
    run(blockmill().args(["doctor", "--json", "--data"]).arg(data))
}

/// `stats --json` of a data directory, which must succeed.
#[track_caller]
pub(crate) fn stats(data: &Path) -> Value {
    run(blockmill().arg("stats").arg("--data").arg(data).arg("--json"))
        .ends_with(0)
        .json()
}

/// Makes a pipe with a name.
pub(crate) fn make_fifo(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success(), "{status}");
}

/// A directory for a test, under its real name, which is the one that messages use.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let parent = std::env::temp_dir()
            .canonicalize()
            .expect("a directory for temporary files");
        Self(tempfile::tempdir_in(parent).expect("a temporary directory"))
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a folder and returns its path. A data directory in it stays, also without a block.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir(&path).expect("a folder that can be made");
        path
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, bytes).expect("a file that can be written");
        path
    }
}

/// Bytes before the block in a record of a block file: magic and length.
pub(crate) const RECORD_HEAD: usize = 8;

/// Where the records of a whole block file lie, magic and length included.
pub(crate) fn records(file: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 4..at + RECORD_HEAD].try_into().expect("four bytes"));
        let end = at + RECORD_HEAD + length as usize;
        records.push(at..end);
        at = end;
    }
    records
}

/// The block in a record.
pub(crate) fn block_of(record: &[u8]) -> Block<&[u8]> {
    Block::decode(&record[RECORD_HEAD..]).expect("a block")
}

/// Hash of the header in a record.
pub(crate) fn hash_of(record: &[u8]) -> BlockHash {
    let header = &record[RECORD_HEAD..RECORD_HEAD + Header::LENGTH];
    Header::from_bytes(header.try_into().expect("80 bytes")).hash()
}

/// A record of a block.
pub(crate) fn record(magic: Magic, block: &[u8]) -> Vec<u8> {
    let length = u32::try_from(block.len()).expect("a block of less than 4 GiB");
    [&magic.0[..], &length.to_le_bytes(), block].concat()
}

/// Draws that follow from a seed (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// An index in a range that is not empty.
    pub(crate) fn within(&mut self, range: &Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    /// 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
