//! Notes what the program is built from, for `quiver --version`.

#[path = "../api/commit.rs"]
mod commit;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../api/commit.rs");
    println!("cargo:rustc-env=QUIVER_CLI_COMMIT={}", commit::commit());
}
