//! Whose process a peer is.

use std::fmt;

use ::memif::io::Credentials;

/// A process at the other end of a control socket, as log and `show memif` name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Process {
    /// Its number, where it is one that we see.
    pub(in super::super) pid: Option<u32>,
    /// What it calls itself, where that can be read.
    pub(in super::super) name: Option<String>,
    /// Its effective user and group, where the kernel tells.
    pub(in super::super) owner: Option<(u32, u32)>,
}

impl Process {
    /// Looks while it is there, if it is: its number may be another's later.
    pub(in super::super) fn of(credentials: Option<Credentials>) -> Self {
        let Some(Credentials { pid, uid, gid }) = credentials else { return Self::default() };
        Self { pid, name: pid.and_then(name), owner: Some((uid, gid)) }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.owner) {
            (Some(pid), _) => write!(f, "process {pid}")?,
            (None, Some(_)) => f.write_str("a process in another process namespace")?,
            (None, None) => return f.write_str("a process that isn't known"),
        }
        // It gives itself its name: quoted, so that it can't look like something else.
        self.name.iter().try_for_each(|name| write!(f, " {name:?}"))?;
        self.owner.iter().try_for_each(|(uid, gid)| write!(f, ", uid {uid}, gid {gid}"))
    }
}

/// What the process calls itself, while it is there and may be looked at.
fn name(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_as_far_as_it_is_known() {
        let us = Process::of(Some(Credentials { pid: Some(std::process::id()), uid: 7, gid: 8 }));
        let name = us.name.as_deref().expect("we may look at ourselves");
        assert_eq!(us.to_string(), format!("process {} {name:?}, uid 7, gid 8", std::process::id()));
        let hidden = Process::of(Some(Credentials { pid: None, uid: 7, gid: 8 }));
        assert_eq!(hidden.to_string(), "a process in another process namespace, uid 7, gid 8");
        assert_eq!(Process::of(None).to_string(), "a process that isn't known");
    }
}
