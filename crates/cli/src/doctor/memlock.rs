//! How much memory may be locked.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::Check;
use crate::render::number::memory;

/// Enough for the rings and slots of some workers, in bytes.
const ENOUGH: u64 = 64 << 20;

/// Looks.
pub(super) fn check() -> Check {
    let exempt = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    judge(getrlimit(Resource::Memlock).current, exempt)
}

/// `limit` in bytes, `None`: unlimited.
fn judge(limit: Option<u64>, exempt: bool) -> Check {
    const NAME: &str = "memlock";
    let meaning = "regions can be kept in memory by whoever locks them";
    match limit {
        None => Check::ok(NAME, "unlimited", meaning),
        Some(limit) if exempt => {
            Check::ok(NAME, format!("{}, but CAP_IPC_LOCK lifts it", memory(limit)), meaning)
        }
        Some(limit) if limit >= ENOUGH => Check::ok(NAME, memory(limit), meaning),
        Some(limit) => Check::warn(
            NAME,
            memory(limit),
            "regions on ordinary pages can't be locked; swapping them stalls workers",
        )
        .with_remedy("ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(judge(None, false).verdict, Verdict::Ok);
        assert_eq!(judge(Some(8 << 20), true).verdict, Verdict::Ok);
        assert_eq!(judge(Some(64 << 20), false).verdict, Verdict::Ok);
        let check = judge(Some(8 << 20), false);
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Warn, "8 MiB"));
    }
}
