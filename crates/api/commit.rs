//! The commit that programs are built from, for their build scripts.

use std::path::Path;
use std::process::Command;

/// In short, or "unknown": of `QUIVER_COMMIT`, or of git, where there is one (a source archive has none). The build script runs again when it
/// changes.
pub fn commit() -> String {
    println!("cargo:rerun-if-env-changed=QUIVER_COMMIT");
    changes().iter().for_each(|path| println!("cargo:rerun-if-changed={path}"));
    let given = std::env::var("QUIVER_COMMIT").ok();
    given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"])).unwrap_or_else(|| "unknown".into())
}

/// What changes with every commit and checkout, also in a linked worktree: the log of HEAD, or, where none is kept, HEAD and what it names. None
/// that isn't there: cargo takes it for changed each time, and builds anew each time.
fn changes() -> Vec<String> {
    let path = |name: &str| {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name])?;
        Path::new(&path).exists().then_some(path)
    };
    if let Some(log) = path("logs/HEAD") {
        return vec![log];
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    path("HEAD").into_iter().chain(branch.and_then(|branch| path(&branch))).collect()
}

fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments))
}

/// What a program says; none where it isn't there or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
