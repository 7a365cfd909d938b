//! The shared library says which interface it has: programs that were linked with another one do
//! not start with it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libblockmill.so.0");
    }
}
