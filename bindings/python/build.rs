//! On macOS the linker must be told that the interpreter's symbols come from the process that loads
//! the module. Maturin tells it, too; a plain build of the workspace has nobody else to do it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "macos") {
        println!("cargo::rustc-link-arg-cdylib=-undefined");
        println!("cargo::rustc-link-arg-cdylib=dynamic_lookup");
    }
}
