//! What peers keep of regions that are mapped no more: noticed when it is gone.
//!
//! inotify tells when a file is gone for good: when nobody has it open, mapped or on its way any more, and its memory is free. Watching
//! keeps the file from none of it. There is one instance for the process, asked whenever an account is.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;

use super::account::Account;
use super::map::{ordinary_page, page_size};

/// What is on an account for a file.
#[derive(Debug)]
struct Claim {
    account: Weak<Account>,
    bytes: u64,
}

/// Files that peers may still have, by watch. A file that was mapped twice has one watch and two claims.
#[derive(Debug)]
struct Remains {
    inotify: OwnedFd,
    claims: Mutex<BTreeMap<i32, Vec<Claim>>>,
}

/// `None`: the process may have no instance. Then nothing is noticed, and accounts stay as they are.
static REMAINS: OnceLock<Option<Remains>> = OnceLock::new();

/// Leaves `bytes` on the account until the file is gone; `false`: for good, because that can't be noticed.
pub(super) fn leave(file: &OwnedFd, bytes: u64, account: &Arc<Account>) -> bool {
    let init = || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
    let made = || init().ok().map(|inotify| Remains { inotify, claims: Mutex::default() });
    let Some(remains) = REMAINS.get_or_init(made) else { return false };
    if !is_nameless(file).is_ok_and(|nameless| nameless) {
        return false;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Held, so that nobody hears that the file is gone before it is known whose it was.
    let mut claims = remains.lock();
    let Ok(watch) = inotify::add_watch(&remains.inotify, path, WatchFlags::DELETE_SELF) else { return false };
    claims.entry(watch).or_default().push(Claim { account: Arc::downgrade(account), bytes });
    true
}

/// Takes what is gone off the accounts.
pub(super) fn collect() {
    if let Some(Some(remains)) = REMAINS.get() {
        // Here, where nothing is locked any more: this may be the last to have an account.
        drop(remains.settle());
    }
}

/// Forgets what was claimed by accounts that are no more.
pub(super) fn forget() {
    if let Some(Some(remains)) = REMAINS.get() {
        remains.lock().retain(|watch, claims| {
            claims.retain(|claim| claim.account.strong_count() > 0);
            if claims.is_empty() {
                // Fails where the file is gone, which nobody has heard yet.
                let _ = inotify::remove_watch(&remains.inotify, *watch);
            }
            !claims.is_empty()
        });
    }
}

impl Remains {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Vec<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes off what is gone since the last time, before anybody else may look; the accounts that it was on.
    fn settle(&self) -> Vec<Arc<Account>> {
        let (mut buffer, mut settled) = ([MaybeUninit::uninit(); 4096], Vec::new());
        let mut claims = self.lock();
        let mut events = Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                // More than a queue of events takes (16384) were gone at once: those that weren't told stay where they are.
                Ok(event) if !event.events().contains(ReadFlags::DELETE_SELF) => {}
                Ok(event) => {
                    for Claim { account, bytes } in claims.remove(&event.wd()).into_iter().flatten() {
                        if let Some(account) = account.upgrade() {
                            account.gone(bytes);
                            settled.push(account);
                        }
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return settled,
            }
        }
    }
}

/// Whether the file can't be given a name: a memfd, whose file system nobody can mount. Of others the kernel says that they are gone
/// when their last name is, though they may be open.
fn is_nameless(file: &OwnedFd) -> Result<bool, Errno> {
    let page = page_size(file)?;
    let mut flags = MemfdFlags::CLOEXEC;
    if page > ordinary_page() {
        // The size of its pages, as a power of two, is in the upper bits.
        flags |= MemfdFlags::HUGETLB | MemfdFlags::from_bits_retain(page.ilog2() << 26);
    }
    let ours = fstat(memfd_create("quiver-probe", flags)?)?;
    Ok(ours.st_dev == fstat(file)?.st_dev)
}
