//! No private key is written anywhere, whatever is wrong with what was typed.

use crate::common::{Scratch, blockmill, connect, run};
use std::path::Path;
use std::process::Command;

const KEYS: [&str; 3] = [
    "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK",
    "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA",
    "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35",
];

/// Fails if a run writes a part of the key.
#[track_caller]
fn check(command: &mut Command, key: &str, status: i32) {
    let run = run(command).ends_with(status);
    for text in [&run.stdout, &run.stderr] {
        let told = (0..key.len() - 12).find(|at| text.contains(&key[*at..at + 12]));
        assert_eq!(told, None, "{command:?}: {text}");
    }
    assert!(status == 0 || !run.stderr.is_empty());
}

#[test]
fn no_private_key_is_written() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let command = |arguments: &[&str], data: &Path| {
        let mut command = blockmill();
        command.args(arguments).arg("--data").arg(data);
        command
    };
    for key in KEYS {
        for form in [
            "pkh(K/0/*)#aaaaaaaa",
            "pkh(K/0/*",
            "K",
            "wsh(pk(K0))",
            "raw:K0",
            "addr(K)",
            "multi(1,K,)",
            "bc1K",
            "bcrt1K",
            "pk(tb1K)",
            "wsh(v:sha256(K))",
            "tr(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798,a:hash256(K))",
        ] {
            let text = form.replace('K', key);
            for log in ["text", "json"] {
                let balance = ["balance", "--log", log, &text];
                check(&mut command(&balance, &data), key, 2);
                let file = scratch.write("texts", text.as_bytes());
                let balance = [
                    "balance",
                    "--log",
                    log,
                    "--table",
                    "--from-file",
                    file.to_str().unwrap(),
                ];
                check(&mut command(&balance, &data), key, 3);
                let export = [
                    "export", "coins", "--log", log, "--format", "csv", "--out", "-", "--where", &text,
                ];
                check(&mut command(&export, &data), key, 2);
            }
            // The command line itself.
            check(&mut command(&["balance", "--range", &text, "raw:51"], &data), key, 2);
            check(&mut command(&["coin", &text], &data), key, 2);
            check(blockmill().arg(&text), key, 2);
            check(
                blockmill().args(["balance", "--data", "d", &format!("--{text}")]),
                key,
                2,
            );
        }
    }
    // Names of files, too, where a key is to be known as one.
    for key in &KEYS[..2] {
        for log in ["text", "json"] {
            check(
                &mut command(&["balance", "--log", log, "raw:51"], Path::new(key)),
                key,
                2,
            );
        }
        check(
            blockmill().args(["verify", "--network", "regtest", "--blocks", key]),
            key,
            3,
        );
    }
    // What is right is answered with public keys.
    for (key, path) in [(KEYS[0], "/<0h;1h>/*"), (KEYS[0], "/<0;1>/*h"), (KEYS[1], "")] {
        let text = format!("pkh({key}{path})");
        for options in [&["--json"][..], &["--table"], &["--table", "--json"]] {
            check(&mut command(&[&["balance", &text], options].concat(), &data), key, 0);
        }
    }
}
