//! Compiles the part of Bitcoin Core that verifies scripts, and the shim.
//!
//! Core's own build calls most of these files `bitcoin_consensus` and `bitcoin_crypto`. Flags,
//! definitions and options are those of its CMake files.

#[path = "build/source.rs"]
mod source;

use std::env;
use std::path::{Path, PathBuf};

/// Files of Core's source. The interpreter is included by core/interpreter.cpp.
const CORE: [&str; 13] = [
    "crypto/hex_base.cpp",
    "crypto/hmac_sha512.cpp",
    "crypto/ripemd160.cpp",
    "crypto/sha1.cpp",
    "crypto/sha256.cpp",
    "crypto/sha256_sse4.cpp",
    "crypto/sha512.cpp",
    "hash.cpp",
    "primitives/transaction.cpp",
    "pubkey.cpp",
    "script/script.cpp",
    "support/cleanse.cpp",
    "uint256.cpp",
];

/// Files of libsecp256k1.
const SECP256K1: [&str; 3] = ["secp256k1.c", "precomputed_ecmult.c", "precomputed_ecmult_gen.c"];

/// libsecp256k1 as Core has it: the modules that Core's keys need, the default window and table.
const SECP256K1_OPTIONS: [(&str, Option<&str>); 8] = [
    ("COMB_BLOCKS", Some("43")),
    ("COMB_TEETH", Some("6")),
    ("ECMULT_WINDOW_SIZE", Some("15")),
    ("ENABLE_MODULE_ELLSWIFT", Some("1")),
    ("ENABLE_MODULE_EXTRAKEYS", Some("1")),
    ("ENABLE_MODULE_RECOVERY", Some("1")),
    ("ENABLE_MODULE_SCHNORRSIG", Some("1")),
    ("SECP256K1_NO_API_VISIBILITY_ATTRIBUTES", None),
];

/// Files of this crate's folder `core`.
const SHIM: [&str; 4] = ["interpreter.cpp", "shim.cpp", "tweak.cpp", "eval.cpp"];
const HEADERS: [&str; 6] = [
    "hash_writer.h",
    "names.h",
    "replaced.h",
    "secp256k1_names.h",
    "shim.h",
    "tweak.h",
];

/// SHA-256 with instructions that not every processor has: the file, its flags, and the definition
/// with which Core asks the processor for them.
struct Sha256 {
    file: &'static str,
    flags: &'static [&'static str],
    enable: &'static str,
}

const X86_64: [Sha256; 3] = [
    Sha256 {
        file: "crypto/sha256_sse41.cpp",
        flags: &["-msse4.1"],
        enable: "ENABLE_SSE41",
    },
    Sha256 {
        file: "crypto/sha256_avx2.cpp",
        flags: &["-mavx", "-mavx2"],
        enable: "ENABLE_AVX2",
    },
    Sha256 {
        file: "crypto/sha256_x86_shani.cpp",
        flags: &["-msse4.1", "-msse4", "-msha"],
        enable: "ENABLE_X86_SHANI",
    },
];

const AARCH64: [Sha256; 1] = [Sha256 {
    file: "crypto/sha256_arm_shani.cpp",
    flags: &["-march=armv8-a+crypto"],
    enable: "ENABLE_ARM_SHANI",
}];

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name} for build scripts: {error}"))
}

fn search() -> source::SourceSearch {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    source::SourceSearch {
        cargo: variable("CARGO").into(),
        manifest_dir: variable("CARGO_MANIFEST_DIR").into(),
        out_dir: variable("OUT_DIR").into(),
        cargo_home: env::var_os("CARGO_HOME").map(PathBuf::from).or(home),
    }
}

/// The version of Core whose source this is.
fn core_version(package: &Path) -> String {
    let path = package.join("bitcoin/CMakeLists.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("set(CLIENT_VERSION_{name} ")));
        let number = line.and_then(|rest| rest.strip_suffix(')'));
        number.unwrap_or_else(|| panic!("{} has no {name} version", path.display()))
    };
    format!("{}.{}.{}", number("MAJOR"), number("MINOR"), number("BUILD"))
}

/// What C and C++ have in common.
fn compiler(core: &Path, names: &str) -> cc::Build {
    let mut build = cc::Build::new();
    // Nobody steps through Core's code here: no `-g`, whatever the profile says.
    build.opt_level(2).debug(false).warnings(false);
    // Names of our own, and none of them is exported from a shared library.
    build.flag("-include").flag(names).flag("-fvisibility=hidden");
    build.include(core).include(core.join("secp256k1/include"));
    // Messages of assertions name files without the path to them.
    build.flag_if_supported(format!("-fmacro-prefix-map={}=.", core.display()));
    build
}

fn cpp(core: &Path, arch: &str) -> cc::Build {
    let mut build = compiler(core, "core/names.h");
    build.cpp(true).std("c++20");
    // The guards that Core's own build has, where the compiler knows them.
    build.flag("-U_FORTIFY_SOURCE").flag("-D_FORTIFY_SOURCE=3");
    // Core does not compile without assertions, which some compilers leave out when they optimise.
    build.flag("-UNDEBUG");
    for flag in [
        "-fno-extended-identifiers",
        "-fstack-reuse=none",
        "-fstack-protector-all",
        "-fcf-protection=full",
        "-fstack-clash-protection",
    ] {
        build.flag_if_supported(flag);
    }
    if arch == "aarch64" {
        build.flag_if_supported("-mbranch-protection=standard");
    }
    build
}

fn libsecp256k1(core: &Path, arch: &str) -> cc::Build {
    let mut build = compiler(core, "core/secp256k1_names.h");
    build.std("c99");
    for (name, value) in SECP256K1_OPTIONS {
        build.define(name, value);
    }
    if arch == "x86_64" {
        build.define("USE_ASM_X86_64", "1");
    }
    build.files(SECP256K1.map(|file| core.join("secp256k1/src").join(file)));
    build
}

fn compile(core: &Path) {
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let variants: &[Sha256] = match arch.as_str() {
        "x86_64" => &X86_64,
        "aarch64" => &AARCH64,
        _ => &[],
    };
    let mut main = cpp(core, &arch);
    for variant in variants {
        main.define(variant.enable, None);
    }
    let mut objects = Vec::new();
    // These files define nothing that another file may define, too, and a test checks it. Else code
    // with instructions that not every processor has could be taken for all.
    for variant in variants {
        let mut build = main.clone();
        for flag in variant.flags {
            build.flag(flag);
        }
        objects.extend(build.file(core.join(variant.file)).compile_intermediates());
    }
    // Guards in functions with arrays, and not in all: EvalScript calls many small ones. Hashes are
    // written in small pieces, so copies are not checked once more.
    let mut shim = main.clone();
    shim.flag("-U_FORTIFY_SOURCE")
        .flag_if_supported("-fstack-protector-strong");
    shim.files(SHIM.map(|file| Path::new("core").join(file)));
    objects.extend(shim.compile_intermediates());
    objects.extend(libsecp256k1(core, &arch).compile_intermediates());
    main.files(CORE.map(|file| core.join(file))).objects(objects);
    main.compile("blockmill_script");
}

fn main() {
    // Another version of Core is another version in Cargo.toml.
    for file in ["build.rs", "build/source.rs", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={file}");
    }
    for file in SHIM.iter().chain(&HEADERS) {
        println!("cargo:rerun-if-changed=core/{file}");
    }
    let package = search().run().unwrap_or_else(|sentence| {
        // Without a panic: what it would add says nothing to who builds.
        eprintln!("error: {sentence}");
        std::process::exit(1);
    });
    println!("cargo:rustc-env=BLOCKMILL_CORE_VERSION={}", core_version(&package));
    compile(&source::core(&package));
}
