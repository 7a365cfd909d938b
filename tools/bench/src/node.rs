//! Bitcoin Core's daemon in a data directory of ours. It reads no configuration of the user, and
//! speaks to nobody.

use blockmill_block::Network;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A daemon and its data directory.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) program: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) network: Network,
}

/// Core's name of a network, and the folder that its data has in a data directory.
fn names(network: Network) -> (&'static str, &'static str) {
    match network {
        Network::Bitcoin => ("main", ""),
        Network::Testnet3 => ("test", "testnet3"),
        Network::Testnet4 => ("testnet4", "testnet4"),
        Network::Signet => ("signet", "signet"),
        Network::Regtest => ("regtest", "regtest"),
    }
}

impl Node {
    fn folder(&self) -> PathBuf {
        self.data.join(names(self.network).1)
    }

    /// The folder with its block files and undo files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.folder().join("blocks")
    }

    /// Its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder().join("debug.log")
    }

    /// A program of Core's, the daemon or a client of it, for this data directory.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The path as it is: it need not be text.
        let mut data = std::ffi::OsString::from("-datadir=");
        data.push(&self.data);
        command.arg(data).arg(format!("-chain={}", names(self.network).0));
        command
    }

    /// The daemon, which writes nothing to standard output.
    pub(crate) fn daemon(&self) -> Command {
        let mut command = self.command(&self.program);
        command
            .args(["-listen=0", "-connect=0", "-dnsseed=0"])
            // On regtest the default is to check the whole index after every block.
            .args(["-printtoconsole=0", "-persistmempool=0", "-checkblockindex=0"]);
        command
    }

    /// The daemon over the blocks in its folder. It ends by itself at `height`, so that nobody has
    /// to ask how far it is. With 0 threads it chooses the number of threads for scripts.
    pub(crate) fn until(&self, height: u32, threads: usize, cache_mib: u32) -> Command {
        let mut command = self.daemon();
        command
            .arg("-server=0")
            .arg(format!("-dbcache={cache_mib}"))
            .arg(format!("-par={threads}"))
            .arg(format!("-stopatheight={height}"));
        command
    }
}

/// The last tip that a log names.
pub(crate) fn last_tip(log: &str) -> &str {
    let lines = log.lines().rev();
    let mut tips = lines.filter_map(|line| line.split("UpdateTip: new best=").nth(1));
    let rest = tips.next().and_then(|rest| rest.split_whitespace().next());
    rest.unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_has_a_folder_for_each_network_but_the_main_one() {
        let blocks = |network| {
            let node = Node {
                program: "bitcoind".into(),
                data: "data".into(),
                network,
            };
            let words: Vec<String> = node
                .until(7, 2, 450)
                .get_args()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            (node.blocks(), words[1].clone(), words.last().cloned())
        };
        let stop = Some("-stopatheight=7".to_owned());
        let wanted = |blocks: &str, chain: &str| (PathBuf::from(blocks), chain.to_owned(), stop.clone());
        assert_eq!(blocks(Network::Bitcoin), wanted("data/blocks", "-chain=main"));
        assert_eq!(blocks(Network::Testnet3), wanted("data/testnet3/blocks", "-chain=test"));
        assert_eq!(last_tip("x\n"), "");
        assert_eq!(
            last_tip("a UpdateTip: new best=aa height=1\nb UpdateTip: new best=bb height=2\nc"),
            "bb"
        );
    }
}
