//! The folder in which quiverd keeps the desired state.

use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::Check;
use crate::render::number::memory;

/// With less space a large state can't be replaced, in bytes.
const SPACE: u64 = 64 << 20;

/// Looks; makes nothing.
pub(super) fn check(folder: &Path, root: bool) -> Check {
    const NAME: &str = "state";
    let shown = folder.display();
    // What isn't there is made by quiverd, in the nearest folder that is.
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    if let Err(error) = access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        return not_writable(existing, error, root);
    }
    let free = statvfs(existing).map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
    if free < SPACE {
        return Check::warn(NAME, format!("{shown}: {} free", memory(free)), "a large state can't be kept")
            .with_remedy("make room, or choose another folder");
    }
    let found =
        if existing == folder { format!("{shown} is writable") } else { format!("{shown} can be made") };
    Check::ok(NAME, found, "the desired state survives a restart")
}

fn not_writable(folder: &Path, error: Errno, root: bool) -> Check {
    const NAME: &str = "state";
    let found = format!("{}: {error}", folder.display());
    let meaning = "the desired state can't be kept: changes are refused";
    if error == Errno::ACCESS && !root {
        Check::warn(NAME, found, meaning).with_remedy("run quiverd as root, or give it a folder of your own")
    } else {
        Check::fail(NAME, found, meaning)
            .with_remedy("make it writable for quiverd, or choose another folder")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn there_and_to_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let there = check(folder.path(), true);
        assert_eq!(there.verdict, Verdict::Ok, "{there:?}");
        assert!(there.found.ends_with("is writable"));
        let below = folder.path().join("a/b");
        assert!(check(&below, true).found.ends_with("a/b can be made"));
        assert!(!below.exists());
    }

    #[test]
    fn not_writable_is_the_users_or_the_systems_fault() {
        let folder = Path::new("/x");
        assert_eq!(not_writable(folder, Errno::ACCESS, false).verdict, Verdict::Warn);
        assert_eq!(not_writable(folder, Errno::ROFS, false).verdict, Verdict::Fail);
        assert_eq!(not_writable(folder, Errno::ACCESS, true).verdict, Verdict::Fail);
    }
}
