//! Descriptors and keys that are given as arguments are not repeated, whatever is wrong with them.

use crate::common::{Run, Scratch, blockmill, connect, run};
use std::path::Path;
use std::process::Command;

const KEYS: [&str; 3] = [
    "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK",
    "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA",
    "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35",
];

/// Fails if a run writes a part of the key.
#[track_caller]
fn check(command: &mut Command, key: &str, status: i32) -> Run {
    let run = run(command).ends_with(status);
    for text in [&run.stdout, &run.stderr] {
        let told = (0..key.len() - 8).find(|at| text.contains(&key[*at..at + 8]));
        assert_eq!(told, None, "{command:?}: {text}");
    }
    assert!(status == 0 || !run.stderr.is_empty());
    run
}

#[test]
fn no_descriptor_is_repeated() {
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
            "K(00)",
            "pkh(K K)",
            "wsh(v:sha256(K))",
            "tr(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798,a:hash256(K))",
        ] {
            let text = form.replace('K', key);
            for log in ["text", "json"] {
                let balance = ["balance", "--log", log, "raw:51", &text];
                check(&mut command(&balance, &data), key, 2).says(&["target 2: "]);
                let file = scratch.write("texts", format!("raw:51\n\n{text}\n").as_bytes());
                let file = file.to_str().unwrap();
                let balance = ["balance", "--log", log, "--table", "--from-file", file];
                check(&mut command(&balance, &data), key, 3).says(&["texts: line 3: "]);
                let export = [
                    "export", "coins", "--log", log, "--format", "csv", "--out", "-", "--where", "raw:51", "--where",
                    &text,
                ];
                check(&mut command(&export, &data), key, 2).says(&["--where 2: "]);
            }
        }
    }
    // What is right is answered with public keys, or the number of the row.
    for (key, path, target) in [
        (KEYS[0], "/<0h;1h>/*", "row 2 (2002 scripts)"),
        (KEYS[0], "/0h/<0;1>", "row 2 (2 scripts)"),
        (KEYS[0], "/0", "pkh(["),
        (KEYS[1], "", "pkh(["),
    ] {
        let text = format!("pkh({key}{path})");
        check(&mut command(&["balance", "--json", &text], &data), key, 0);
        for options in [&["--table"][..], &["--table", "--json"]] {
            let table = check(
                &mut command(&[&["balance", "raw:51", &text], options].concat(), &data),
                key,
                0,
            );
            assert!(table.stdout.contains(target), "{text}: {table:?}");
        }
    }
}
