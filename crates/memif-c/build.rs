//! Gives the shared library its name.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libquiver-memif.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
