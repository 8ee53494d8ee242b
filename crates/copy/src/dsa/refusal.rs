//! Why a work queue can't be opened, and what to do.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Mode;

/// Why a work queue can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such file.
    #[error(
        "there is no {path}: the work queue is not configured, or the machine has no DSA. Configure it \
         (`accel-config config-wq {device}/{queue} --group-id=0 --type=user --driver-name=user --mode=dedicated --wq-size=16 --name=quiver`, then \
         `accel-config config-engine {device}/engine{number}.0 --group-id=0`, `accel-config enable-device {device}`, \
         `accel-config enable-wq {device}/{queue}`), or set copy.engine to \"cpu\""
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// Name of the device: "dsa0".
        device: String,
        /// Name of the queue: "wq0.1".
        queue: String,
        /// Number of the device.
        number: String,
    },
    /// Another process has it.
    #[error(
        "{path} is in use: a dedicated work queue serves one process. End the other one (`fuser {path}`), name another queue in \
         copy.queues, or configure this one with `--mode=shared --threshold=…`"
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// We may not open it.
    #[error(
        "{path}: permission denied{standing}. Give it to that user or group: `chown root {path}` where quiverd runs as root, and a udev rule \
         (SUBSYSTEM==\"dsa\", OWNER=…) so that it stays so; in a container, mount the device and allow it (see docs/copy-engines.md)"
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Whose it is, and who we are.
        standing: String,
    },
    /// We may open it, but not write to its portal.
    #[error(
        "{path}: not permitted to map the portal. On devices that INTEL-SA-01084 concerns Linux asks for CAP_SYS_RAWIO: add it to \
         quiverd's capabilities (`CapabilityBoundingSet=` of the unit)"
    )]
    Unmappable {
        /// The file.
        path: PathBuf,
    },
    /// The CPU lacks the instruction that writes to such a portal.
    #[error("{path}: this CPU has no {instruction}, which a {} work queue takes", .mode.name())]
    Instruction {
        /// The file.
        path: PathBuf,
        /// The instruction.
        instruction: &'static str,
        /// How the queue takes descriptors.
        mode: Mode,
    },
    /// The system says something else.
    #[error(
        "{path}: {source} (the driver needs an IOMMU with shared virtual addressing: boot with `intel_iommu=on,sm_on`; \
         `dmesg | grep idxd` says more)"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn of(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => {
                let queue = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let number = queue.trim_start_matches("wq").split('.').next().unwrap_or_default().to_owned();
                Self::Missing { device: format!("dsa{number}"), path, queue, number }
            }
            Some(Errno::BUSY) => Self::Busy { path },
            Some(Errno::ACCESS | Errno::PERM) => {
                let standing = standing(&path);
                Self::Denied { path, standing }
            }
            _ => Self::Other { path, source: error },
        }
    }
}

/// Whose a file is, and who we are.
fn standing(path: &Path) -> String {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match path.metadata() {
        Ok(file) => format!(
            ": it belongs to user {} and group {}, mode {:04o}, and quiverd runs as user {user} and group {group}",
            file.uid(),
            file.gid(),
            file.mode() & 0o7777
        ),
        Err(_) => format!(": quiverd runs as user {user} and group {group}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_refusal_names_the_device_and_what_to_do() {
        let path = Path::new("/dev/dsa/wq3.1");
        for (errno, words) in [
            (
                Errno::NOENT,
                &[
                    "/dev/dsa/wq3.1",
                    "accel-config config-wq dsa3/wq3.1",
                    "dsa3/engine3.0",
                    "enable-device dsa3",
                ][..],
            ),
            (Errno::BUSY, &["/dev/dsa/wq3.1", "in use", "--mode=shared"]),
            (Errno::ACCESS, &["/dev/dsa/wq3.1", "permission denied", "chown"]),
            (Errno::OPNOTSUPP, &["/dev/dsa/wq3.1", "intel_iommu=on,sm_on"]),
        ] {
            let said = OpenError::of(path, errno.into()).to_string();
            for word in words {
                assert!(said.contains(word), "{word:?} is missing in: {said}");
            }
        }
    }

    #[test]
    fn who_may_open_it_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        let said = OpenError::of(file.path(), Errno::ACCESS.into()).to_string();
        let ours = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let wanted = format!(
            "permission denied: it belongs to user {} and group {}, mode 0640, and quiverd runs as user {} and group {}. Give",
            ours.0, ours.1, ours.0, ours.1
        );
        assert!(said.contains(&wanted), "{said}");
    }
}
