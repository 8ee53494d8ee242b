//! Whether a peer is one of those that an interface is for.

use std::os::fd::BorrowedFd;

use rustix::fs::stat;

use super::Credentials;
use super::credentials::pid_namespace;
use crate::control::{Admission, Reason, Stranger};

/// # Errors
/// [`Reason::NotAllowed`].
pub(super) fn check(
    admission: &Admission,
    peer: Option<Credentials>,
    socket: Option<BorrowedFd<'_>>,
) -> Result<(), Reason> {
    if admission.is_open() {
        return Ok(());
    }
    let peer = peer.ok_or(Reason::NotAllowed(Stranger::Unknown))?;
    let stranger = if !holds(&admission.uids, peer.uid) {
        Stranger::User(peer.uid)
    } else if !holds(&admission.gids, peer.gid) {
        Stranger::Group(peer.gid)
    } else if let Some(namespace) = &admission.pid_namespace {
        match stat(namespace) {
            Err(_) => Stranger::NoProcessNamespace,
            Ok(wanted)
                if peer.pid.zip(socket).and_then(|(pid, socket)| pid_namespace(pid, socket))
                    == Some((wanted.st_dev, wanted.st_ino)) =>
            {
                return Ok(());
            }
            Ok(_) => Stranger::ProcessNamespace,
        }
    } else {
        return Ok(());
    };
    Err(Reason::NotAllowed(stranger))
}

fn holds(list: &[u32], id: u32) -> bool {
    list.is_empty() || list.contains(&id)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::PathBuf;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn each_list_that_is_not_empty_must_hold_the_peer() {
        let (ours, _theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let peer = Credentials { pid: Some(std::process::id()), uid: 7, gid: 8 };
        let own = Some(PathBuf::from("/proc/self/ns/pid"));
        let policy = |uids: &[u32], gids: &[u32], pid_namespace: &Option<PathBuf>| Admission {
            uids: uids.into(),
            gids: gids.into(),
            pid_namespace: pid_namespace.clone(),
        };
        let judge = |policy: Admission, peer| check(&policy, peer, Some(ours.as_fd()));
        let refused = |stranger| Err(Reason::NotAllowed(stranger));
        for (policy, expected) in [
            (policy(&[], &[], &None), Ok(())),
            (policy(&[1, 7], &[], &None), Ok(())),
            (policy(&[1], &[], &None), refused(Stranger::User(7))),
            (policy(&[], &[8], &None), Ok(())),
            (policy(&[7], &[7], &None), refused(Stranger::Group(8))),
            (policy(&[7], &[8], &own), Ok(())),
            // Another kind of namespace is another one, and one that isn't there is nobody's.
            (policy(&[], &[], &Some("/proc/self/ns/net".into())), refused(Stranger::ProcessNamespace)),
            (policy(&[], &[], &Some("/proc/0/ns/pid".into())), refused(Stranger::NoProcessNamespace)),
        ] {
            assert_eq!(judge(policy, Some(peer)), expected);
        }
        assert_eq!(judge(policy(&[7], &[], &None), None), refused(Stranger::Unknown));
        let hidden = Some(Credentials { pid: None, ..peer });
        assert_eq!(judge(policy(&[7], &[], &own), hidden), refused(Stranger::ProcessNamespace));
    }
}
