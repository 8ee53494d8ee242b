//! Opening things in another network namespace.

use super::LinkError;
use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Runs `work` on a thread of its own inside `netns` (a name under /run/netns, or a path; `None`: where we are). What it
/// opens there stays there; the calling thread never moves.
///
/// # Errors
/// [`LinkError::System`] if the namespace can't be entered, or what `work` gives.
pub(super) fn within<R: Send>(
    name: &str,
    netns: Option<&str>,
    work: impl FnOnce() -> Result<R, LinkError> + Send,
) -> Result<R, LinkError> {
    let Some(netns) = netns else { return work() };
    let path = if netns.contains('/') { PathBuf::from(netns) } else { Path::new("/run/netns").join(netns) };
    let target = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| LinkError::system(name, "open its network namespace", errno))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| LinkError::system(name, "enter its network namespace", errno))?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
