//! Crates outside the workspace that embed the verifier. Each is built offline, from a vendored
//! folder, with Core's part of the C++: a CPU minute or less. `make outside` runs these tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The packages of this project that blockmill-script needs, and those that the tests of these
/// need: cargo asks for all of them before it makes a package.
const PACKAGES: [&str; 6] = [
    "blockmill-block",
    "blockmill-chaingen",
    "blockmill-rules",
    "blockmill-script",
    "secp256k1-lanes",
    "sha256-lanes",
];

/// The first transaction that paid somebody: it spends an output of 50 coins in block 9.
const PROGRAM: &str = r#"
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput};
use blockmill_script::{CoreVerifier, Signatures};

const TRANSACTION: &str = "0100000001c997a5e56e104102fa209c6a852dd90660a20b2d9c352423edce25857fcd37\
04000000004847304402204e45e16932b8af514961a1d3a1a25fdf3f4f7732e9d624c6c61548ab5fb8cd410220181522ec\
8eca07de4860a4acdd12909d831cc56cbbac4622082221a8768d1d0901ffffffff0200ca9a3b00000000434104ae1a62fe\
09c5f51b13905f07f06b99a2f7159b2225f374cd378d71302fa28414e7aab37397f554a7df5f142c21c1b7303b8a0626f1\
baded5c72a704f7e6cd84cac00286bee0000000043410411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7\
b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3ac00000000";

fn main() {
    let byte = |index: usize| u8::from_str_radix(&TRANSACTION[index..index + 2], 16).unwrap();
    let mut transaction: Vec<u8> = (0..TRANSACTION.len()).step_by(2).map(byte).collect();
    // The change goes to the key that signs.
    let script_pubkey = transaction[transaction.len() - 71..transaction.len() - 4].to_vec();
    let spent = [SpentOutput { value: 5_000_000_000, script_pubkey: &script_pubkey }];
    let verifier = CoreVerifier::new(Signatures::OneByOne);
    let mut verdict = |change: u8| {
        *transaction.last_mut().unwrap() = change;
        let prepared = verifier.prepare(&transaction, &spent).unwrap();
        verifier.verify(&prepared, 0, ScriptFlags::P2SH).is_ok()
    };
    println!("{} {}", verdict(0), verdict(1));
}
"#;

struct Outside {
    folder: tempfile::TempDir,
    /// A folder for cargo's downloads with nothing in it. None: the user's.
    empty_home: Option<PathBuf>,
}

impl Outside {
    /// A crate with these dependencies, and the versions of the workspace's lock file.
    fn new(dependency: impl Fn(&str) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/main.rs"), PROGRAM).unwrap();
        let outside = Self {
            folder,
            empty_home: None,
        };
        outside.write_manifest(dependency);
        fs::copy(
            format!("{PROJECT}/Cargo.lock"),
            outside.folder.path().join("Cargo.lock"),
        )
        .unwrap();
        outside
    }

    fn write_manifest(&self, dependency: impl Fn(&str) -> String) {
        let needed = ["blockmill-rules", "blockmill-script"];
        let needed: String = needed.map(|name| format!("{name} = {}\n", dependency(name))).concat();
        let manifest =
            format!("[package]\nname = \"outside\"\nedition = \"2024\"\n\n[dependencies]\n{needed}\n[workspace]\n");
        fs::write(self.folder.path().join("Cargo.toml"), manifest).unwrap();
    }

    /// What cargo prints.
    fn cargo(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).arg("--offline").current_dir(folder);
        // Variables of the cargo that runs this test are not a user's.
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO") && name != "CARGO_HOME" {
                command.env_remove(name);
            }
        }
        command.env("CARGO_TARGET_DIR", self.folder.path().join("target"));
        // Core's files compile in half the time so.
        command.env("CFLAGS", "-O0").env("CXXFLAGS", "-O0");
        if let Some(home) = &self.empty_home {
            command.env("CARGO_HOME", home);
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn check(&self) {
        let printed = self.cargo(self.folder.path(), &["run", "--quiet"]);
        assert_eq!(printed, "true false\n");
        let built = fs::read_dir(self.folder.path().join("target/debug/build")).unwrap();
        let built: Vec<_> = built
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(
            built.iter().any(|name| name.starts_with("blockmill-script-")),
            "{built:?}"
        );
        assert!(
            !built.iter().any(|name| name.starts_with("libbitcoinkernel-sys-")),
            "{built:?}"
        );
    }

    /// All packages that are needed go to a folder.
    fn vendor(&self) {
        let root = self.folder.path();
        let settings = self.cargo(root, &["vendor"]);
        fs::create_dir(root.join(".cargo")).unwrap();
        fs::write(root.join(".cargo/config.toml"), settings).unwrap();
    }

    /// From here on nothing but the vendored folder is there.
    fn empty_home(&mut self) {
        self.empty_home = Some(self.folder.path().join("home"));
    }

    /// This project's packages go there, too, as a registry would have them.
    fn package(&self) {
        let root = self.folder.path();
        let mut package = vec!["package", "--no-verify", "--allow-dirty", "--quiet"];
        package.extend(PACKAGES.iter().flat_map(|name| ["-p", *name]));
        self.cargo(Path::new(PROJECT), &package);
        for entry in fs::read_dir(root.join("target/package")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "crate") {
                unpack(&path, &root.join("vendor"));
            }
        }
    }
}

/// A package in a vendored folder has a list of checksums, which may be empty.
fn unpack(package: &Path, folder: &Path) {
    let mut tar = Command::new("tar");
    let status = tar.arg("-xzf").arg(package).arg("-C").arg(folder).status().unwrap();
    assert!(status.success());
    let name = package.file_stem().unwrap();
    let list = folder.join(name).join(".cargo-checksum.json");
    fs::write(list, "{\"files\":{}}").unwrap();
}

fn by_path(name: &str) -> String {
    let folder = name.strip_prefix("blockmill-").unwrap_or(name);
    format!("{{ path = \"{PROJECT}/crates/{folder}\" }}")
}

#[test]
#[ignore = "compiles Core's interpreter; make outside"]
fn a_folder_beside_it() {
    let mut outside = Outside::new(by_path);
    outside.vendor();
    outside.empty_home();
    outside.check();
}

#[test]
#[ignore = "compiles Core's interpreter; make outside"]
fn packages() {
    let mut outside = Outside::new(by_path);
    outside.vendor();
    outside.package();
    outside.write_manifest(|_| format!("\"{}\"", env!("CARGO_PKG_VERSION")));
    outside.empty_home();
    outside.check();
}
