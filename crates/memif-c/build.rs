//! Gives the shared library its name, and has it stay where it is once it is loaded: a thread of it may run on for a moment behind the last call.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libquiver-memif.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
