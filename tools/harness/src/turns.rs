//! Contenders that run in turns, so that each run has a neighbour of each other contender under the
//! same conditions.

use crate::failure::Failure;
use crate::row::Row;
use crate::run::Run;
use crate::spread::Spread;
use std::fmt::Write;

/// A run that takes longer has a line of its own.
const LONG_SECONDS: f64 = 1.0;

/// Takes a line for a person who waits.
pub type Progress<'p> = &'p mut dyn FnMut(&str);

/// The time that a ratio compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall time.
    Wall,
    /// CPU time of all threads.
    Cpu,
}

/// Whom a contender's ratio is about. The ratio is always the peer's time over ours.
#[derive(Debug, Clone)]
enum Beside {
    Peer(String),
    Ours(String),
}

/// Something that runs.
pub struct Contender<'a> {
    name: String,
    row: Row,
    beside: Option<Beside>,
    runs_max: usize,
    may_fail: bool,
    run: Box<dyn FnMut() -> Result<Run, Failure> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender, with the beginning of its row. `run` does one run and checks its result.
    pub fn new(name: &str, row: Row, run: impl FnMut() -> Result<Run, Failure> + 'a) -> Self {
        Self {
            name: name.to_owned(),
            row,
            beside: None,
            runs_max: usize::MAX,
            may_fail: false,
            run: Box::new(run),
        }
    }

    /// This one is ours. Its ratio is the time of that peer over its own.
    pub fn beside_peer(self, peer: &str) -> Self {
        Self {
            beside: Some(Beside::Peer(peer.to_owned())),
            ..self
        }
    }

    /// This one is a peer. Its ratio is its own time over that of ours. Ours itself gets none.
    pub fn beside_ours(self, ours: &str) -> Self {
        Self {
            beside: (self.name != ours).then(|| Beside::Ours(ours.to_owned())),
            ..self
        }
    }

    /// Limits the number of runs, for one that takes minutes. Its neighbours are compared with the
    /// runs that there are.
    pub fn at_most(self, runs: usize) -> Self {
        Self { runs_max: runs, ..self }
    }

    /// A run that fails does not end the turns of the others. The row then has the words of the
    /// error as `failed`, and no figure, not even of runs before.
    pub fn may_fail(self) -> Self {
        Self { may_fail: true, ..self }
    }
}

/// How contenders run.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    runs: usize,
    clock: Clock,
}

impl Turns {
    /// So many runs of each, compared by wall time.
    pub fn new(runs: usize) -> Self {
        Self {
            runs,
            clock: Clock::Wall,
        }
    }

    /// Compares by this clock.
    pub fn by(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Runs all contenders in turns. Returns a row for each, in their order.
    ///
    /// # Errors
    /// The first error of a run that must not fail.
    pub fn take(
        self,
        title: &str,
        mut contenders: Vec<Contender<'_>>,
        progress: Progress<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let mut all: Vec<Vec<Run>> = contenders.iter().map(|_| Vec::new()).collect();
        let mut failures: Vec<Option<String>> = contenders.iter().map(|_| None).collect();
        for turn in 1..=self.runs {
            let mut order: Vec<usize> = (0..contenders.len()).collect();
            if turn % 2 == 0 {
                // Back and forth, so that the neighbours of a run change.
                order.reverse();
            }
            for index in order {
                let contender = &mut contenders[index];
                // Its neighbours are compared with the runs that there are.
                if turn > contender.runs_max || failures[index].is_some() {
                    continue;
                }
                let run = match (contender.run)() {
                    Err(error) if contender.may_fail => {
                        progress(&format!(
                            "{title}, run {turn} of {}: {}: {error}",
                            self.runs, contender.name
                        ));
                        failures[index] = Some(error.to_string());
                        // Nobody is compared with some of its runs.
                        all[index].clear();
                        continue;
                    }
                    run => run?,
                };
                if run.seconds > LONG_SECONDS {
                    let name = &contender.name;
                    progress(&format!(
                        "{title}, run {turn} of {}: {name}: {:.2} s",
                        self.runs, run.seconds
                    ));
                }
                all[index].push(run);
            }
        }
        progress(&words(title, &contenders, self.runs));
        let find = |name: &str| contenders.iter().position(|other| other.name == name);
        let rows = contenders
            .iter()
            .zip(&all)
            .zip(failures)
            .map(|((contender, own), failed)| {
                if let Some(words) = failed {
                    return contender.row.clone().with("failed", words);
                }
                let mut row = contender.row.clone().timed(own);
                let other = |name: &str| find(name).map_or(&[][..], |index| &all[index]);
                let ratio = match &contender.beside {
                    Some(Beside::Peer(peer)) => ratio(self.clock, other(peer), own),
                    Some(Beside::Ours(ours)) => ratio(self.clock, own, other(ours)),
                    None => None,
                };
                if let Some(ratio) = ratio {
                    row.set_spread("ratio", ratio);
                }
                row
            });
        Ok(rows.collect())
    }
}

/// A peer's time for a unit of work over that of ours, of runs side by side. The side with fewer
/// runs begins again. Where one of the two has no count, they are whole runs of the same work.
pub fn ratio(clock: Clock, peer: &[Run], ours: &[Run]) -> Option<Spread> {
    if peer.is_empty() || ours.is_empty() {
        return None;
    }
    let pairs = (0..peer.len().max(ours.len())).map(|turn| {
        let [peer, ours] = [peer, ours].map(|runs| &runs[turn % runs.len()]);
        let counted = peer.count > 0 && ours.count > 0;
        let time = |run: &Run| {
            let seconds = match clock {
                Clock::Wall => run.seconds,
                Clock::Cpu => run.cpu_seconds,
            };
            if counted { run.each(seconds) } else { seconds }
        };
        time(peer) / time(ours)
    });
    // A run that is too short for the clock has no ratio.
    Spread::of(pairs.filter(|ratio| ratio.is_finite()))
}

/// The line after the last turn.
fn words(title: &str, contenders: &[Contender<'_>], runs: usize) -> String {
    let mut text = format!("{title}: {runs} runs of");
    for contender in contenders {
        // Writing to a string does not fail.
        let _ = write!(text, " {},", contender.name);
    }
    text.trim_end_matches(',').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn run(seconds: f64, count: u64) -> Result<Run, Failure> {
        Ok(Run {
            seconds,
            cpu_seconds: 3.0 * seconds,
            count,
            ..Run::default()
        })
    }

    fn row(name: &str) -> Row {
        Row::new("table").with("who", name)
    }

    /// A daemon does not say how many inputs it has checked.
    #[test]
    fn a_run_without_a_count_is_the_same_work() {
        let runs = |seconds, count| [run(seconds, count).unwrap()];
        for (peer, ours) in [(0, 1000), (1000, 0), (0, 0)] {
            let ratio = ratio(Clock::Wall, &runs(6.0, peer), &runs(2.0, ours)).unwrap();
            assert_eq!(ratio.median, 3.0);
        }
        let ratio = ratio(Clock::Wall, &runs(8.0, 4), &runs(2.0, 2)).unwrap();
        assert_eq!(ratio.median, 2.0);
    }

    #[test]
    fn neighbours_are_compared_and_their_order_changes() {
        let order = RefCell::new(String::new());
        let ran = |name: char| order.borrow_mut().push(name);
        let mut seconds = [1.0, 2.0, 4.0].into_iter();
        let contenders = vec![
            Contender::new("ours", row("ours"), || {
                ran('o');
                run(seconds.next().unwrap(), 10)
            })
            .beside_peer("peer"),
            // Half the work in twice the time.
            Contender::new("peer", row("peer"), || {
                ran('p');
                run(4.0, 5)
            })
            .beside_ours("ours"),
            Contender::new("slow", row("slow"), || {
                ran('s');
                run(8.0, 10)
            })
            .beside_ours("ours")
            .at_most(1),
        ];
        let mut lines = Vec::new();
        let rows = Turns::new(3).take("title", contenders, &mut |line| lines.push(line.to_owned()));
        let rows = rows.unwrap();
        assert_eq!(*order.borrow(), "opspoop");
        let ratio = |index: usize| ["ratio_min", "ratio_median", "ratio_max"].map(|key| rows[index].number(key));
        assert_eq!(ratio(0), [Some(2.0), Some(4.0), Some(8.0)]);
        assert_eq!(ratio(1), ratio(0));
        assert_eq!(ratio(2), [Some(2.0), Some(4.0), Some(8.0)]);
        assert_eq!(rows[2].number("runs"), Some(1.0));
        assert_eq!(lines.first().unwrap(), "title, run 1 of 3: peer: 4.00 s");
        assert_eq!(lines.last().unwrap(), "title: 3 runs of ours, peer, slow");
    }

    #[test]
    fn a_run_that_fails_ends_it() {
        let contenders = vec![Contender::new("ours", row("ours"), || Err("wrong".into()))];
        let error = Turns::new(2).by(Clock::Cpu).take("title", contenders, &mut |_| ());
        assert_eq!(error.unwrap_err().to_string(), "wrong");
    }

    #[test]
    fn a_contender_that_may_fail_has_a_row_that_says_so() {
        let mut left = [4.0].into_iter();
        let contenders = vec![
            Contender::new("ours", row("ours"), || run(1.0, 10)).beside_peer("peer"),
            Contender::new("peer", row("peer"), || run(left.next().ok_or("gone")?, 10))
                .beside_ours("ours")
                .may_fail(),
        ];
        let rows = Turns::new(3).take("title", contenders, &mut |_| ()).unwrap();
        assert_eq!(
            (rows[0].number("runs"), rows[0].number("ratio_median")),
            (Some(3.0), None)
        );
        assert_eq!(rows[1], row("peer").with("failed", "gone"));
    }
}
