//! What the kernel lets us do.

use rustix::thread::{CapabilitySet, capabilities};

use super::Check;

/// A capability, its name, and what is lost without it.
const WANTED: [(CapabilitySet, &str, &str); 3] = [
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN", "taps"),
    (CapabilitySet::NET_RAW, "CAP_NET_RAW", "interfaces of the kernel (AF_PACKET)"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN", "taps and sockets in network namespaces of pods"),
];

/// Looks.
pub(super) fn check(root: bool) -> Check {
    judge(capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty()), root)
}

fn judge(have: CapabilitySet, root: bool) -> Check {
    const NAME: &str = "capabilities";
    let missing = WANTED.iter().filter(|(capability, ..)| !have.contains(*capability)).collect::<Vec<_>>();
    if missing.is_empty() {
        let names = WANTED.map(|(_, name, _)| name).join(", ");
        return Check::ok(NAME, names, "interfaces can be made in every network namespace");
    }
    let names = missing.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
    let lost = missing.iter().map(|(.., lost)| *lost).collect::<Vec<_>>().join(", no ");
    let (found, meaning) = (format!("missing: {names}"), format!("without them no {lost}; memif works"));
    if root {
        Check::fail(NAME, found, meaning)
            .with_remedy("give them to the container (securityContext.capabilities.add) or the systemd unit")
    } else {
        Check::warn(NAME, found, meaning).with_remedy("run quiverd as root (systemctl start quiverd)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let all = CapabilitySet::all();
        assert_eq!(judge(all, true).verdict, Verdict::Ok);
        let check = judge(all.difference(CapabilitySet::NET_ADMIN), true);
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Fail, "missing: CAP_NET_ADMIN"));
        assert_eq!(judge(CapabilitySet::empty(), false).verdict, Verdict::Warn);
    }
}
