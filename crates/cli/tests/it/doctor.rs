//! `doctor`: what is sound is said to be, and what is damaged is named, with what to do.

use crate::common::{
    Run, Scratch, block_of, blockmill, connect, doctor, generate_command, holder, manifest, records, run, store,
    submit_command,
};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The health of a part, and what is said of it: where it has several findings, the worst.
fn part(run: &Run, name: &str) -> (String, String) {
    let json = run.json();
    let parts = json["parts"].as_array().unwrap();
    let mut found: Vec<_> = parts
        .iter()
        .filter(|part| part["part"] == name)
        .map(|part| {
            let text = |key: &str| part[key].as_str().unwrap().to_owned();
            (text("health"), text("detail"))
        })
        .collect();
    found.sort_by_key(|(health, _)| ["damaged", "harmless", "sound"].iter().position(|name| name == health));
    found
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("nothing about {name}: {run:#?}"))
}

/// A data directory of a generated chain of 150 blocks.
fn made(scratch: &Scratch) -> (PathBuf, PathBuf, String) {
    let (out, data) = (scratch.join("chain"), scratch.join("data"));
    let mut command = generate_command(&out, "utxo", 150);
    run(command.args(["--inputs", "3000"])).ends_with(0);
    store::connect_before_damage(&out, &data, 145);
    let manifest = manifest(&out);
    let hash = manifest["hash_serialized_3"].as_str().unwrap().to_owned();
    (out, data, hash)
}

#[test]
fn a_sound_directory_is_said_to_be_sound() {
    let scratch = Scratch::new();
    let (_, data, hash) = made(&scratch);
    let sound = doctor(&data).ends_with(0);
    assert_eq!(sound.json()["sound"], true);
    let (health, detail) = part(&sound, store::PART);
    assert_eq!(health, "sound");
    assert!(detail.contains(&hash) && detail.contains("height 150"), "{detail}");
    assert_eq!(
        part(&sound, "undo.dat"),
        ("sound".to_owned(), "undo data of 150 blocks".to_owned())
    );
    assert_eq!(part(&sound, "headers.dat").0, "sound");
    let table = run(blockmill().arg("doctor").arg("--data").arg(&data)).ends_with(0);
    assert!(table.stdout.contains(&hash), "{table:#?}");
    // What is not there is no data directory.
    doctor(&scratch.join("nothing")).ends_with(2);
    // While somebody else has it, it says so.
    let mut child = holder(&data);
    let locked = std::iter::repeat_with(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        doctor(&data)
    })
    .take(200)
    .find(|run| run.status != 0 || run.stdout.contains("in use"))
    .expect("the lock is held");
    let who = format!("in use by process {} (blockmill submit", child.id());
    let (health, detail) = part(&locked.ends_with(0), "lock");
    assert_eq!(health, "sound");
    assert!(detail.starts_with(&who), "{detail}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn what_a_kill_leaves_is_harmless() {
    let scratch = Scratch::new();
    let (_, data, _) = made(&scratch);
    for name in ["headers.dat", "undo.dat"] {
        let mut file = File::options().append(true).open(data.join(name)).unwrap();
        file.write_all(&[7; 50]).unwrap();
        assert_eq!(part(&doctor(&data).ends_with(0), name).0, "harmless");
    }
}

/// Nothing rests on the note of where blocks are. What reads blocks finds none without it, which is
/// said.
#[test]
fn blocks_that_are_not_found_are_said() {
    let scratch = Scratch::new();
    let (out, data, _) = made(&scratch);
    let path = data.join("places.dat");
    let whole = std::fs::read(&path).unwrap();
    let feed = || run(blockmill().args(["feed", "--data"]).arg(&data)).status;
    assert_eq!((feed(), part(&doctor(&data), "places.dat").0), (0, "sound".to_owned()));
    let longer = [&whole[..], &[7; 50]].concat();
    std::fs::write(&path, longer).unwrap();
    assert_eq!(
        (feed(), part(&doctor(&data).ends_with(0), "places.dat").0),
        (0, "harmless".to_owned())
    );
    let mut damaged = whole.clone();
    damaged[50] ^= 1;
    for bytes in [damaged, Vec::new()] {
        std::fs::write(&path, bytes).unwrap();
        std::fs::remove_dir_all(data.join("kept")).unwrap();
        let found = doctor(&data).ends_with(3).json();
        let is_said = |part: &serde_json::Value| part["detail"].as_str().unwrap().contains("150 blocks of the chain");
        assert!(found["parts"].as_array().unwrap().iter().any(is_said), "{found:#}");
        assert_eq!((feed(), &found["sound"]), (3, &serde_json::Value::Null));
        run(&mut connect(&out, &data, "regtest")).ends_with(0);
        assert_eq!((feed(), doctor(&data).status), (0, 0));
    }
}

#[test]
fn damage_is_named() {
    let scratch = Scratch::new();
    let (_, data, _) = made(&scratch);
    let check = |name: &str, change: &dyn Fn(&Path), wanted: &[&str]| {
        let other = scratch.join(&format!("damaged-{name}-{}", wanted.len()));
        store::copy(&data, &other);
        change(&other);
        let run = doctor(&other).ends_with(3);
        assert_eq!(run.json()["sound"], false);
        let (health, detail) = part(&run, name);
        assert_eq!(health, "damaged", "{run:#?}");
        for text in wanted {
            assert!(detail.contains(text), "not said of {name}: {text}: {detail}");
        }
    };
    let half = |path: PathBuf| std::fs::metadata(path).unwrap().len() / 2;
    // A record of undo data; the header that a record hangs on; headers cut off; a file that is
    // gone.
    check(
        "undo.dat",
        &|data| store::damage(&data.join("undo.dat"), half(data.join("undo.dat"))),
        &["offset", "height", "no reorganisation below"],
    );
    check(
        "headers.dat",
        &|data| store::damage(&data.join("headers.dat"), half(data.join("headers.dat"))),
        &["tip", "new data directory"],
    );
    check(
        "headers.dat",
        &|data| std::fs::remove_file(data.join("headers.dat")).unwrap(),
        &["the header of the tip"],
    );
    check(
        "undo.dat",
        &|data| std::fs::remove_file(data.join("undo.dat")).unwrap(),
        &["not there"],
    );
    // Some page of the store that is in use: coins lie all over it.
    let full = store::pages(&store::file(&data), 2000);
    let page = full[full.len() / 2];
    check(
        store::PART,
        &|data| store::damage(&store::file(data), page + 2000),
        &["new data directory"],
    );
}

/// Submits all blocks of a file above the first, and says what each gets.
fn submit_all(file: &[u8], data: &Path) -> Vec<String> {
    let mut lines = String::new();
    for record in records(file).into_iter().skip(1) {
        lines += &blockmill_block::hex::encode(block_of(&file[record]).bytes());
        lines.push('\n');
    }
    let folder = Scratch::new();
    let input = File::open(folder.write("lines", lines.as_bytes())).unwrap();
    let answers = run(submit_command(data).stdin(input)).ends_with(0).stdout;
    let verdict = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["verdict"].to_string();
    answers.lines().map(verdict).collect()
}

/// The only copies of blocks are damaged or gone, in several ways: that is damage, what reads
/// blocks ends with another status than 0, and submitting the blocks again mends it.
#[test]
fn submitted_blocks_are_looked_at_too() {
    let scratch = Scratch::new();
    let (out, _, _) = made(&scratch);
    let file = std::fs::read(out.join("blk00000.dat")).unwrap();
    let data = scratch.join("submitted");
    assert_eq!(submit_all(&file, &data).len(), 150);
    assert_eq!(
        part(&doctor(&data).ends_with(0), "blocks/"),
        ("sound".to_owned(), "150 blocks".to_owned())
    );
    let path = Path::new("blocks/blk00000.dat");
    let own = std::fs::read(data.join(path)).unwrap();
    let (length, header) = (own.len() as u64, records(&own)[70].start as u64 + 20);
    let cut = |path: &Path, length| File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    type Change<'a> = &'a dyn Fn(&Path);
    let changes: [(&str, Change<'_>, &str); 5] = [
        ("content", &|path| store::damage(path, length - 60), "offset"),
        ("header", &|path| store::damage(path, header), ""),
        (
            "cut",
            &|path| cut(path, length / 2),
            "blocks of the chain are in no file",
        ),
        (
            "zeros",
            &|path| std::fs::write(path, vec![0; length as usize]).unwrap(),
            "150 blocks of the chain",
        ),
        (
            "gone",
            &|path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap(),
            "at height 1:",
        ),
    ];
    for (name, change, said) in changes {
        let other = scratch.join(name);
        store::copy(&data, &other);
        change(&other.join(path));
        let found = doctor(&other).ends_with(3);
        let is_said = |part: &serde_json::Value| {
            let detail = part["detail"].as_str().unwrap();
            let is_bad = ["damaged", "unreadable"].iter().any(|health| part["health"] == *health);
            is_bad && detail.contains(said) && detail.contains("blocks again")
        };
        assert!(
            found.json()["parts"].as_array().unwrap().iter().any(is_said),
            "{name}: {found:#?}"
        );
        let feed = || run(blockmill().args(["feed", "--data"]).arg(&other));
        assert_eq!(feed().status, 3, "{name}");
        assert!(
            submit_all(&file, &other)
                .iter()
                .all(|verdict| verdict == "\"duplicate\""),
            "{name}"
        );
        assert_eq!(feed().status, 0, "{name}");
    }
}
