//! What happens when pages of a region go away.
//!
//! A peer that truncates an unsealed region, or punches holes into a huge-page region and uses up the pool,
//! turns our next access into SIGBUS. Seals prevent the first, nothing prevents the second. Holes in other regions are SIGBUS because we
//! ask for it (`punched`). So all regions are guarded: the signal's handler puts private zero pages in place of the region that was hit and marks it
//! as [lost](super::Region::lost); the access goes on and reads zeros, and the connection is closed as soon
//! as somebody looks. Every other SIGBUS goes where it went before.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;

/// Slots that are made at a time ...
const CHUNK: usize = 1024;
/// ... and how often: a million regions. The kernel allows a process fewer mappings (`vm.max_map_count`, 65530 by default).
const CHUNKS: usize = 1024;

/// A region, as the signal handler sees it.
#[derive(Debug)]
struct Slot {
    /// Which of the slot's uses it is, times [`USES`], and how far that is: where it stays the same, so does the region.
    state: AtomicU64,
    base: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const GUARDED: u64 = 2;
const USES: u64 = 4;

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
        }
    }

    /// Takes the slot for a region, if it is free.
    fn take(&self, base: usize, len: usize) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let (claimed, guarded) = (state + CLAIMED, state + GUARDED);
        let claim = || self.state.compare_exchange(state, claimed, Ordering::Acquire, Ordering::Relaxed);
        if state % USES != FREE || claim().is_err() {
            return false;
        }
        // Whoever sees one of these sees that the slot was claimed, too.
        self.base.store(base, Ordering::Release);
        self.len.store(len, Ordering::Release);
        self.lost.store(false, Ordering::Relaxed);
        self.state.store(guarded, Ordering::Release);
        true
    }

    /// Gives it back. Only for who has taken it.
    fn free(&self) {
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(state - state % USES + USES, Ordering::Release);
    }

    /// Base and length of the region that is guarded here, both of the same one.
    fn region(&self) -> Option<(usize, usize)> {
        let state = self.state.load(Ordering::Acquire);
        if state % USES != GUARDED {
            return None;
        }
        let region = (self.base.load(Ordering::Acquire), self.len.load(Ordering::Acquire));
        (self.state.load(Ordering::Relaxed) == state).then_some(region)
    }
}

/// Slots of all regions. It grows when all are taken, and none ever goes: the handler looks at them at any time.
static TABLE: [OnceLock<Box<[Slot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Whether any region was ever lost: lets the hot path skip looking at each.
static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// What was done about SIGBUS before; `None` if our handler could not be installed.
static PREVIOUS: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Whether any region of the process was ever lost.
#[inline(always)]
pub(super) fn any_lost() -> bool {
    ANY_LOST.load(Ordering::Relaxed)
}

/// Guards one mapping for as long as it exists. To be dropped before the mapping goes away.
#[derive(Debug)]
pub(super) struct Guard {
    slot: &'static Slot,
}

impl Guard {
    /// # Errors
    /// [`Errno::NOSPC`] if a million regions are mapped, or what installing the handler failed with.
    pub fn new(base: usize, len: usize) -> Result<Self, Errno> {
        install()?;
        // The next chunk is made when none is free in those before it.
        let chunk = |chunk: &'static OnceLock<Box<[Slot]>>| {
            chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::new()).collect())
        };
        let slot = TABLE.iter().flat_map(chunk).find(|slot| slot.take(base, len));
        Ok(Self { slot: slot.ok_or(Errno::NOSPC)? })
    }

    /// Whether pages went away.
    pub fn lost(&self) -> bool {
        self.slot.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.free();
    }
}

/// Installs the handler, once.
fn install() -> Result<(), Errno> {
    let installed = PREVIOUS.get_or_init(|| set(&ours()));
    installed.as_ref().map(|_| ()).ok_or(Errno::PERM)
}

fn ours() -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

/// Has SIGBUS do this; gives what it did before.
fn set(action: &libc::sigaction) -> Option<libc::sigaction> {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both point to a sigaction; the handler keeps to what is allowed in a signal handler.
    let result = unsafe { libc::sigaction(libc::SIGBUS, action, previous.as_mut_ptr()) };
    // SAFETY: on success the kernel has filled it in.
    (result == 0).then(|| unsafe { previous.assume_init() })
}

/// The handler of SIGBUS. Uses atomics and system calls only.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to handlers with SA_SIGINFO.
    let sent = unsafe { (*info).si_code } <= 0;
    // SAFETY: the same; that of a SIGBUS holds an address. If it was sent by somebody, there is something else in its place.
    let address = unsafe { (*info).si_addr() } as usize;
    if sent || !replace(address) {
        pass_on(signal, sent, info, context);
    }
}

/// The slot whose region has this address, with base and length.
///
/// Slots come and go meanwhile, but not the one of the region that was hit: it is guarded as long as it is mapped, and mapped as long as the
/// thread that was hit is here. No other region can have the address then, so that there is none to be found but this.
fn holding<'a>(
    slots: impl IntoIterator<Item = &'a Slot>,
    address: usize,
) -> Option<(&'a Slot, usize, usize)> {
    slots.into_iter().find_map(|slot| {
        let (base, len) = slot.region()?;
        (address.wrapping_sub(base) < len).then_some((slot, base, len))
    })
}

/// Puts zero pages in place of the region with this address; `false` if there is none.
fn replace(address: usize) -> bool {
    // To look whether a chunk is there takes one atomic load.
    let slots = TABLE.iter().map_while(OnceLock::get).flatten();
    let Some((slot, base, len)) = holding(slots, address) else { return false };
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: base..base+len is the one region that has the address: a mapping of the thread that was hit, or one that
    // it was lent, which stays until that thread goes on, so that no other mapping can be there. Both numbers are of one use
    // of the slot, so that they are this region's. Its bytes were never promised to keep their values. mmap is a bare system call; the errno of the code that was interrupted is put back.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let mapped = libc::mmap(base as *mut _, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        *errno = saved;
        if mapped == libc::MAP_FAILED {
            return false;
        }
    }
    slot.lost.store(true, Ordering::Relaxed);
    ANY_LOST.store(true, Ordering::Relaxed);
    true
}

/// Does what was done before us.
fn pass_on(signal: libc::c_int, sent: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(Some(previous)) = PREVIOUS.get() else { return die(signal, sent) };
    match previous.sa_sigaction {
        libc::SIG_IGN if sent => return,
        // A fault can't be ignored: the access would be repeated for ever.
        libc::SIG_DFL | libc::SIG_IGN => return die(signal, sent),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO, that is the type of a handler.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO, that is the type of a handler.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
    // Rust's own handler has the default in its place when it returns, for an access that is repeated. Of what was sent nothing is, and
    // the process goes on: guarded.
    if sent {
        set(&ours());
    }
}

/// Ends the process as it would have ended without us: goes back to the default, under which the access is repeated when the handler
/// returns. What was sent isn't repeated by itself: it is sent once more, and arrives then, so that there is no going on unguarded.
fn die(signal: libc::c_int, sent: bool) {
    // SAFETY: both are allowed in a signal handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if sent {
            libc::raise(signal);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
