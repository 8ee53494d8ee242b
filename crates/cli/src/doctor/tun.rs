//! The device that taps are made of.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};

use super::Check;

/// Opens it, which makes no tap yet.
pub(super) fn check(root: bool) -> Check {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    judge(opened.map(|_| ()), root)
}

fn judge(opened: io::Result<()>, root: bool) -> Check {
    const NAME: &str = "tap";
    let without = "no tap or tun interfaces; memif works";
    match opened {
        Ok(()) => Check::ok(NAME, "/dev/net/tun can be opened", "pods can have taps"),
        Err(error) if !root && error.kind() == ErrorKind::PermissionDenied => {
            Check::warn(NAME, "/dev/net/tun is not for this user", without)
                .with_remedy("run quiverd as root (systemctl start quiverd)")
        }
        Err(error) => Check::fail(NAME, format!("/dev/net/tun: {error}"), without)
            .with_remedy("modprobe tun; in a container pass the device through (--device /dev/net/tun)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn whose_fault_it_is() {
        let denied = || Err(io::Error::from(ErrorKind::PermissionDenied));
        assert_eq!(judge(Ok(()), false).verdict, Verdict::Ok);
        assert_eq!(judge(denied(), false).verdict, Verdict::Warn);
        assert_eq!(judge(denied(), true).verdict, Verdict::Fail);
        assert_eq!(judge(Err(io::Error::from(ErrorKind::NotFound)), false).verdict, Verdict::Fail);
    }
}
