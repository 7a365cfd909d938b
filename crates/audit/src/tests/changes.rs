//! Files that change while they are read.

use super::chains::*;
use crate::{Auditor, FindingKind, Report, Sources, Verdict};
use blockmill_chain::{Event, Observer, Signatures};
use blockmill_chaingen::core_files::CoreLayout;
use blockmill_script::CoreVerifier;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Zeros at the end of a file, which nobody reads.
const PADDING: u64 = 5_000;

/// What is done to a folder.
type Changing<'a> = &'a dyn Fn(&Path);

/// Changes files when the first block has its verdict.
struct Change<'a> {
    folder: &'a Path,
    change: Option<Changing<'a>>,
}

impl Observer for Change<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Progress(progress) = event
            && let Some(change) = self.change.take()
        {
            assert!(progress.blocks < 50, "{progress:?}");
            change(self.folder);
        }
    }
}

/// Audits a chain of 110 blocks, 50 in a file, which change on the way.
fn audit_while(change: Changing<'_>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    write(&chain(110), folder.path(), &CoreLayout::default());
    let (verifier, stop) = (
        Arc::new(CoreVerifier::new(blockmill_script::Signatures::Lanes)),
        AtomicBool::new(false),
    );
    let auditor = Auditor::new(&verifier, 1, Signatures::OneByOne, &stop);
    let sources = Sources {
        blocks: &[folder.path().join("blocks")],
        headers: &[],
        params: &params(),
    };
    let mut observer = Change {
        folder: folder.path(),
        change: Some(change),
    };
    let report = auditor.files(&sources, &folder.path().join("set"), None, &mut observer);
    assert!(observer.change.is_none());
    report.unwrap()
}

fn flip(path: &Path, share: f64) {
    let mut bytes = std::fs::read(path).unwrap();
    let used = bytes.len() - PADDING as usize;
    bytes[(used as f64 * share) as usize] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

/// Cuts off most of a file, which has so many bytes at its end that nobody reads.
fn cut(path: &Path, padding: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len((file.metadata().unwrap().len() - padding) / 8).unwrap();
}

#[test]
fn nothing_changes() {
    assert_eq!(audit_while(&|_| ()).verdict, Verdict::Proved);
}

#[test]
fn blocks_that_change_are_not_read() {
    let changes: [(&str, Changing<'_>); 3] = [
        ("flipped", &|folder| flip(&folder.join("blocks/blk00002.dat"), 0.5)),
        ("cut", &|folder| cut(&folder.join("blocks/blk00002.dat"), PADDING)),
        ("of other heights", &|folder| {
            std::fs::copy(folder.join("blocks/blk00001.dat"), folder.join("blocks/blk00002.dat")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let report = audit_while(change);
        assert_eq!(report.verdict, Verdict::Incomplete, "{what}: {:?}", report.findings);
        for finding in &report.findings {
            assert_eq!(finding.kind, FindingKind::Unreadable, "{what}");
            assert!(finding.height.unwrap() >= 100, "{what}");
            assert!(finding.reason.contains("blk00002.dat"), "{what}: {finding}");
        }
    }
    // The search for headers has opened it, and it is there until it is closed.
    let gone = audit_while(&|folder| std::fs::remove_file(folder.join("blocks/blk00002.dat")).unwrap());
    assert_eq!(gone.verdict, Verdict::Proved);
}

#[test]
fn undo_data_that_changes_is_not_read() {
    let changes: [(&str, Changing<'_>); 3] = [
        ("flipped", &|folder| flip(&folder.join("blocks/rev00002.dat"), 0.5)),
        ("cut", &|folder| cut(&folder.join("blocks/rev00002.dat"), PADDING)),
        ("gone", &|folder| {
            std::fs::remove_file(folder.join("blocks/rev00002.dat")).unwrap()
        }),
    ];
    for (what, change) in changes {
        let report = audit_while(change);
        assert_eq!(report.verdict, Verdict::Incomplete, "{what}: {:?}", report.findings);
        let kinds = report.findings.iter().map(|finding| finding.kind);
        assert!(kinds.eq(vec![FindingKind::Unreadable; report.findings.len()]), "{what}");
    }
}

/// What was found in the blocks counts, whatever becomes of the set, or of other blocks.
#[test]
fn a_broken_rule_is_one_whatever_cannot_be_read() {
    let lie = |folder: &Path| {
        let mut lie = chain(110);
        lie.blocks[104].spent[0].script = blockmill_chaingen::bitcoin::ScriptBuf::new_op_return([1]);
        lie.write(&folder.join("blocks"), &CoreLayout::default()).unwrap();
    };
    let changes: [(&str, FindingKind, Changing<'_>); 2] = [
        ("no set", FindingKind::Set, &|folder| {
            lie(folder);
            std::fs::remove_file(folder.join("set")).unwrap();
        }),
        ("a block that is damaged", FindingKind::Unreadable, &|folder| {
            lie(folder);
            flip(&folder.join("blocks/rev00002.dat"), 0.95);
        }),
    ];
    for (what, kind, change) in changes {
        let report = audit_while(change);
        assert_eq!(report.verdict, Verdict::Refuted, "{what}: {:?}", report.findings);
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::Block, kind], "{what}");
    }
}

#[test]
fn it_is_the_set_that_was_read_that_counts() {
    // The set is read after the blocks.
    let lie = audit_while(&|folder| {
        let mut lie = chain(110);
        lie.coins.values_mut().next().unwrap().value += 1;
        lie.write_snapshot(&folder.join("set")).unwrap();
    });
    assert_eq!(lie.verdict, Verdict::Refuted);
    assert_eq!(lie.findings[0].kind, FindingKind::Sums);
    let cut = audit_while(&|folder| cut(&folder.join("set"), 0));
    assert_eq!(cut.verdict, Verdict::Incomplete);
    assert_eq!(cut.findings[0].kind, FindingKind::Set);
    let gone = audit_while(&|folder| std::fs::remove_file(folder.join("set")).unwrap());
    assert_eq!(gone.verdict, Verdict::Incomplete);
    assert_eq!(gone.findings[0].kind, FindingKind::Set);
    let of_other_block = audit_while(&|folder| chain(109).write_snapshot(&folder.join("set")).unwrap());
    assert_eq!(of_other_block.verdict, Verdict::Incomplete);
    assert_eq!(of_other_block.findings[0].kind, FindingKind::Parts);
}
