//! What can go wrong with a region.

use rustix::io::Errno;

/// Why a region could not be created or was not mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// A size of 0, or one that 32-bit offsets can't reach.
    #[error("region size {0} is not in 1..={max}", max = super::MAX_REGION_SIZE)]
    Size(u64),
    /// The operating system refused a step of creating a region.
    #[error("cannot create region `{name}` of {size} bytes: {step}: {errno}")]
    Create {
        /// Name of the region, as in [`RegionOptions`](super::RegionOptions).
        name: String,
        /// Size in bytes.
        size: u64,
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// Huge pages were required and there are too few of them.
    #[error(
        "cannot get {size} bytes of huge pages for region `{name}` ({step}: {errno}): raise vm.nr_hugepages or the \
         container's hugepages limit, or do not require huge pages"
    )]
    NoHugePages {
        /// Name of the region.
        name: String,
        /// Size in bytes.
        size: u64,
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// A peer's descriptor is not a memfd (or other file of tmpfs or hugetlbfs), so that reading it could
    /// block or fault.
    #[error("the region's file descriptor is not a memfd: {0}")]
    NotMemory(Errno),
    /// A peer claims more than its file holds.
    #[error("the region claims {claimed} bytes but its file has {actual}")]
    Truncated {
        /// Size the peer announced, in bytes.
        claimed: u64,
        /// Size of the file, in bytes.
        actual: u64,
    },
    /// The peer can still shrink the file and thereby fault whoever reads it.
    #[error("the region's file is not sealed against shrinking (F_SEAL_SHRINK)")]
    Unsealed,
    /// The peer can still free pages of the file, and have whoever touches them wait for that: it has sealed it against further seals.
    /// Pools of zero-copy clients and trust groups are for servers that take [shared](super::SealPolicy::Shared) memory.
    #[error("the region's file can't be sealed against freeing its pages: leave out F_SEAL_SEAL")]
    Unsealable,
    /// The file can't be mapped to write any more: a server that has mapped it sealed it so, or the peer itself. Who
    /// announces a file more than once, as zero-copy clients do, is for servers that take [shared](super::SealPolicy::Shared) memory.
    #[error("the region's file is sealed against writing: a file can be announced once")]
    SealedAgainstWriting,
    /// A peer's region has pages that nobody has touched yet, and that we would pay for; with those of its earlier ones they are too many.
    #[error(
        "region with holes: fallocate it before connecting, raise the limit or re-create the interface: \
         {size} bytes, {account} of {most} are on its account"
    )]
    Holes {
        /// Size of the region, in bytes.
        size: u64,
        /// On the [account](super::Account) already, in bytes.
        account: u64,
        /// What may be on it, in bytes.
        most: u64,
    },
    /// The operating system refused to inspect or map a peer's region.
    #[error("cannot map a peer's region of {size} bytes: {step}: {errno}")]
    Map {
        /// Size in bytes.
        size: u64,
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// More regions than a 16-bit index can name.
    #[error("{0} regions, at most 65536 can be named")]
    TooMany(usize),
}
