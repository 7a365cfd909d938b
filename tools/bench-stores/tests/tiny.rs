//! A tiny run of everything: all phases of all stores that are built in, kills included.

use std::process::Command;

#[test]
fn a_tiny_run_has_all_figures() {
    let directory = tempfile::tempdir().unwrap();
    let mut stores = "redb,lmdb,fjall,fjall-ingest".to_owned();
    if cfg!(feature = "rocksdb") {
        stores += ",rocksdb,rocksdb-ingest";
    }
    let json = directory.path().join("figures.json");
    let output = Command::new(env!("CARGO_BIN_EXE_blockmill-bench-stores"))
        .args(["--coins", "20000", "--changes", "2000", "--reads", "2000"])
        .args(["--cold-reads", "500", "--cache-mib", "4", "--stores", &stores, "--dir"])
        .arg(directory.path())
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("open after a kill"), "{table}");
    assert!(!table.contains("- |"), "a figure is missing: {table}");
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    for store in stores.split(',') {
        let figures = &figures["stores"][store];
        assert_eq!(figures["flush"]["commits"].as_array().unwrap().len(), 5);
        assert_eq!(figures["reopen"].as_array().unwrap().len(), 3);
        assert!(figures["load"]["write_ratio"].as_f64().unwrap() > 0.0);
        assert!(!directory.path().join(store).exists());
    }
}
