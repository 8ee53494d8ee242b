//! Version of the kernel, sealed shared memory, scheduling by terminal.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::{Check, Files};

/// Since this version huge pages can be sealed (`MFD_HUGETLB` with `MFD_ALLOW_SEALING`).
const NEEDED: (u32, u32) = (4, 16);
/// Oldest version Quiver is tested with.
const TESTED: (u32, u32) = (5, 10);

/// The version.
pub(super) fn version(files: &Files) -> Check {
    const NAME: &str = "kernel";
    let release = files.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let upgrade = format!("install Linux {}.{} or later", TESTED.0, TESTED.1);
    match number(&release) {
        Some(version) if version >= TESTED => {
            Check::ok(NAME, release, "has all that memif, tap and AF_PACKET need")
        }
        Some(version) if version >= NEEDED => {
            Check::warn(NAME, release, "should do, but Quiver isn't tested with it").with_remedy(upgrade)
        }
        Some(_) => Check::fail(NAME, release, "can't seal huge pages").with_remedy(upgrade),
        None => Check::warn(NAME, "unknown version", "/proc/sys/kernel/osrelease says none")
            .with_remedy("mount /proc"),
    }
}

/// "6.1.0-27-amd64" is (6, 1).
fn number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|character: char| !character.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Memory that can be shared and sealed: what memif stands on.
pub(super) fn memfd() -> Check {
    const NAME: &str = "memfd";
    let made = memfd_create("quiver-doctor", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC)
        .and_then(|file| fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::SEAL));
    match made {
        Ok(()) => Check::ok(NAME, "can be made and sealed", "memory can be shared with pods"),
        Err(error) => Check::fail(NAME, error.to_string(), "no memory can be shared with pods: no memif")
            .with_remedy("allow memfd_create and fcntl in the seccomp profile of the container"),
    }
}

/// Whether niceness counts only among processes of the same terminal.
pub(super) fn autogroup(files: &Files) -> Check {
    const NAME: &str = "autogroup";
    match files.read("/proc/sys/kernel/sched_autogroup_enabled").as_deref() {
        Some("1") => Check::ok(
            NAME,
            "on",
            "niceness counts only among processes of one terminal: a busy shell takes as much of a core as a worker",
        )
        .with_remedy("matters only where workers share cores with shells: sysctl kernel.sched_autogroup_enabled=0"),
        _ => Check::ok(NAME, "off", "niceness counts for all processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::files::machine;
    use super::*;

    #[test]
    fn versions() {
        for (release, verdict) in [
            ("6.1.0-27-amd64\n", Verdict::Ok),
            ("5.10.0", Verdict::Ok),
            ("5.4.0-200-generic", Verdict::Warn),
            ("4.9.0", Verdict::Fail),
            ("10.0-rc1", Verdict::Ok),
            ("strange", Verdict::Warn),
        ] {
            let (_folder, files) = machine(&[("/proc/sys/kernel/osrelease", release)]);
            assert_eq!(version(&files).verdict, verdict, "{release}");
        }
    }

    #[test]
    fn autogroup_is_a_note() {
        let (_folder, on) = machine(&[("/proc/sys/kernel/sched_autogroup_enabled", "1\n")]);
        assert!(!autogroup(&on).remedy.is_empty());
        let (_folder, absent) = machine(&[]);
        assert_eq!(autogroup(&absent).found, "off");
    }
}
