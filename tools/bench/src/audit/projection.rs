//! What the figures say of the main network: measured stages, times its counts.

use super::shares::Shares;

/// The main network in 2026, about.
const INPUTS: f64 = 3.3e9;
const OUTPUTS: f64 = 3.5e9;
const COINS: f64 = 180e6;
const BLOCK_BYTES: f64 = 740e9;
const UNDO_BYTES: f64 = 100e9;

/// Cores of a machine, and machines of a cluster.
const CORES: f64 = 16.0;
const MACHINES: f64 = 100.0;

/// The lines of the projection. Scripts are those of `mixed`, the rest is that of `utxo`.
pub(super) fn projection(utxo: &Shares, mixed: &Shares, cores: usize) -> Vec<String> {
    let per = |shares: &Shares, what: usize, count: usize| shares.cpu_seconds[what] / shares.counts[count];
    let (script, sum, byte) = (per(mixed, 0, 0), per(utxo, 1, 1), per(utxo, 2, 2));
    let seconds = [script * INPUTS, sum * (OUTPUTS + INPUTS + COINS), byte * BLOCK_BYTES];
    let all: f64 = seconds.iter().sum();
    let busy = utxo.busy.min(mixed.busy);
    let hours = |cores: f64| all / 3600.0 / cores / busy;
    let read = |cores: f64| (BLOCK_BYTES + UNDO_BYTES) / 1e6 / (all / cores / busy);
    vec![
        format!(
            "main network, projected: {:.1} CPU hours of scripts ({:.1} us an input of mixed), {:.2} of sums ({:.0} ns a \
             coin), {:.2} of the rest ({:.2} ns a byte of utxo)",
            seconds[0] / 3600.0,
            script * 1e6,
            seconds[1] / 3600.0,
            sum * 1e9,
            seconds[2] / 3600.0,
            byte * 1e9
        ),
        format!(
            "that is {:.1} hours on these {cores} cores, {:.0} minutes on {CORES} of them, {:.1} minutes on {MACHINES} such \
             machines, if the files come as fast: {:.0} MB/s for each machine of {CORES} cores",
            hours(cores as f64),
            hours(CORES) * 60.0,
            hours(CORES * MACHINES) * 60.0,
            read(CORES)
        ),
        format!(
            "assumed: {:.1} billion inputs of the kinds of mixed, {:.1} billion outputs, {:.0} million coins, {:.0} GB of \
             blocks and {:.0} GB of undo data; cores as these, each at work {:.0}% of the time",
            INPUTS / 1e9,
            OUTPUTS / 1e9,
            COINS / 1e6,
            BLOCK_BYTES / 1e9,
            UNDO_BYTES / 1e9,
            busy * 100.0
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_multiplied_with_their_counts() {
        let shares = |cpu_seconds| Shares {
            scripts: 0.5,
            sums: 0.1,
            busy: 0.5,
            cpu_seconds,
            counts: [1e6, 2e6, 4e6],
        };
        // 36 us an input; 20 ns a coin, 1 ns a byte.
        let lines = projection(&shares([9.0, 0.04, 0.004]), &shares([36.0, 9.0, 9.0]), 2);
        assert!(lines[0].contains("33.0 CPU hours of scripts (36.0 us"), "{lines:?}");
        assert!(
            lines[0].contains("0.04 of sums (20 ns a coin), 0.21 of the rest (1.00 ns"),
            "{lines:?}"
        );
        // 33.24 hours at half the speed.
        assert!(
            lines[1].contains("33.2 hours on these 2 cores, 249 minutes on 16"),
            "{lines:?}"
        );
        assert!(lines[1].contains("2.5 minutes on 100"), "{lines:?}");
        assert!(lines[2].contains("each at work 50%"), "{lines:?}");
    }
}
