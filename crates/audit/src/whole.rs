//! The audit of a whole chain and the set of its last block.

use crate::audit::Auditor;
use crate::conditions::{ChainFacts, Conditions};
use crate::error::AuditError;
use crate::file_states::FileStates;
use crate::finding::FindingKind;
use crate::fingerprint::Fingerprinter;
use crate::joined::Joined;
use crate::key::Key;
use crate::merge::join;
use crate::part::Part;
use crate::report::{Report, missing, report, without_work};
use crate::set::{AuditedSet, SetSums, set_sums};
use crate::sum::Summed;
use crate::workplace::Workplace;
use blockmill_chain::{ChainBlocks, Observer};
use blockmill_rules::ScriptVerifier;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;

impl<V: ScriptVerifier + 'static> Auditor<'_, V> {
    /// Audits a whole chain and the set of its last block.
    pub(crate) fn whole(
        &self,
        blocks: &ChainBlocks,
        set: AuditedSet<'_>,
        resume: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, AuditError> {
        let (tip, height) = (blocks.hash(blocks.height()).unwrap_or_default(), blocks.height());
        let missing = missing(blocks, 0..=height);
        if !missing.is_empty() {
            return Ok(without_work(blocks, tip, Some(height), missing));
        }
        let workplace = resume.map(|path| Workplace::open(path, blocks, states(blocks, set)));
        let workplace = workplace.transpose()?;
        let key = match &workplace {
            Some(workplace) => workplace.key.clone(),
            None => Key::draw()?,
        };
        let ranges = match &workplace {
            Some(workplace) => workplace.ranges_left(blocks),
            None => vec![0..=height],
        };
        let mut work = Work {
            auditor: self,
            blocks,
            key: &key,
            workplace,
            summed: Summed::nothing(),
        };
        work.sum(&ranges, observer)?;
        let fingerprinter = Fingerprinter::new(&key);
        let (threads, stop) = (self.threads, self.stop);
        let (sums, set_finding) = set_sums(set, (tip, height), &fingerprinter, threads, stop, observer)?;
        let mut joined = work.join(&sums, set_finding.is_none());
        if joined.findings.iter().any(|finding| finding.kind == FindingKind::Sums) {
            // Kept parts have seen coins that their files may no longer have.
            let changed = work.give_up_changed()?;
            if !changed.is_empty() {
                work.sum(&changed, observer)?;
                joined = work.join(&sums, set_finding.is_none());
            }
        }
        let summed = work.summed;
        joined.findings.extend(summed.findings);
        joined.findings.extend(set_finding);
        joined.say_causes_once(summed.unreadable);
        let chain = ChainFacts::of_magic(blocks.params().magic());
        let mut report = report(&chain, joined, &sums, Some(height), summed.times);
        report.sum_time += summed.sum_time;
        report.note(set, &key, sums.figures.as_ref());
        Ok(report)
    }
}

/// The files that blocks and their undo data are read from.
fn states(blocks: &ChainBlocks, set: AuditedSet<'_>) -> FileStates {
    let own_undo = match set {
        AuditedSet::Data(set) => Some(set.directory().undo_path()),
        AuditedSet::Snapshot(_) => None,
    };
    FileStates::look(blocks, own_undo.as_deref())
}

/// What was done of a chain.
struct Work<'a, V> {
    auditor: &'a Auditor<'a, V>,
    blocks: &'a ChainBlocks,
    key: &'a Key,
    workplace: Option<Workplace>,
    summed: Summed,
}

impl<V: ScriptVerifier + 'static> Work<'_, V> {
    /// Sums ranges up.
    fn sum(&mut self, ranges: &[RangeInclusive<u32>], observer: &mut dyn Observer) -> Result<(), AuditError> {
        let workplace = self.workplace.as_ref();
        let mut keep = |part: &Part| workplace.map_or(Ok(()), |workplace| workplace.keep(part));
        let summed = self.auditor.sum(self.blocks, ranges, self.key, observer, &mut keep)?;
        if !summed.is_complete && self.auditor.stop.load(Ordering::Relaxed) {
            return Err(AuditError::Stopped);
        }
        self.summed.add(summed);
        Ok(())
    }

    /// See [`Workplace::give_up_changed`].
    fn give_up_changed(&mut self) -> Result<Vec<RangeInclusive<u32>>, AuditError> {
        self.workplace
            .as_mut()
            .map_or(Ok(Vec::new()), Workplace::give_up_changed)
    }

    /// Joins all parts with the set.
    fn join(&self, set: &SetSums, set_is_whole: bool) -> Joined {
        let kept = self.workplace.iter().flat_map(Workplace::parts);
        let mut parts: Vec<&Part> = kept.chain(&self.summed.parts).collect();
        parts.sort_by_key(|part| part.first);
        let conditions = self.auditor.conditions;
        let is_whole = self.summed.unreadable.is_empty();
        let conditions = Conditions {
            // What cannot be read says more than a gap.
            joined: conditions.joined && is_whole,
            sums: conditions.sums && is_whole && set_is_whole,
            ..conditions
        };
        let chain = ChainFacts::of_magic(self.blocks.params().magic());
        join(&parts, set, &chain, conditions)
    }
}
