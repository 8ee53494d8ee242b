//! The hardware's portal: the only part of the engine that the model doesn't stand in for, and kept as thin as that asks for.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::io::Errno;

use super::{Mode, OpenError, Portal};

/// Opens the file of a queue.
///
/// # Errors
/// [`OpenError`], by what the system says.
pub fn open_file(path: &Path) -> Result<File, OpenError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|error| OpenError::of(path, error))
}

/// Opens and maps the portal of the queue at `path`.
///
/// # Errors
/// [`OpenError`].
#[cfg(target_arch = "x86_64")]
pub fn open(path: &Path, mode: Mode) -> Result<Box<dyn Portal>, OpenError> {
    let file = open_file(path)?;
    let (has, instruction) = match mode {
        Mode::Dedicated => (x86::has_movdir64b(), "MOVDIR64B"),
        Mode::Shared => (x86::has_enqcmd(), "ENQCMD"),
    };
    if !has {
        return Err(OpenError::Instruction { path: path.to_owned(), instruction, mode });
    }
    Ok(Box::new(x86::Mapped::new(file, mode).map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => OpenError::Unmappable { path: path.to_owned() },
        error => OpenError::Other { path: path.to_owned(), source: error.into() },
    })?))
}

/// There is no DSA beside other CPUs.
///
/// # Errors
/// [`OpenError::Instruction`].
#[cfg(not(target_arch = "x86_64"))]
pub fn open(path: &Path, mode: Mode) -> Result<Box<dyn Portal>, OpenError> {
    open_file(path)?;
    Err(OpenError::Instruction { path: path.to_owned(), instruction: "MOVDIR64B or ENQCMD", mode })
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};
    use std::fs::File;
    use std::ptr::{self, NonNull};

    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::super::portal::{PORTAL, SLOTS};
    use super::super::{Accepted, Descriptor, Mode, Portal};

    /// Word ECX of CPUID leaf 7 (Intel SDM vol. 2A, CPUID).
    fn features() -> u32 {
        if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ecx } else { 0 }
    }

    pub(super) fn has_movdir64b() -> bool {
        features() & 1 << 28 != 0
    }

    pub(super) fn has_enqcmd() -> bool {
        features() & 1 << 29 != 0
    }

    /// Writes 64 bytes at once.
    ///
    /// # Safety
    /// The CPU has the instruction; `to` is writable for 64 bytes and aligned to them.
    unsafe fn movdir64b(to: *mut u8, descriptor: &Descriptor) {
        // SAFETY: as the caller promises; it reads the descriptor and writes what `to` points to, nothing else.
        unsafe {
            asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) ptr::from_ref(descriptor),
                 options(nostack, preserves_flags));
        }
    }

    /// Writes 64 bytes at once to a device that says whether it took them.
    ///
    /// # Safety
    /// The CPU has the instruction; `to` is the portal of a shared queue, and aligned to 64 bytes.
    unsafe fn enqcmd(to: *mut u8, descriptor: &Descriptor) -> Accepted {
        let full: u8;
        // SAFETY: as above.
        unsafe {
            asm!("enqcmd {to}, [{from}]", "setz {full}", to = in(reg) to, from = in(reg) ptr::from_ref(descriptor),
                 full = out(reg_byte) full, options(nostack));
        }
        if full == 0 { Accepted::Yes } else { Accepted::Full }
    }

    /// A portal that is mapped.
    #[derive(Debug)]
    pub(super) struct Mapped {
        at: NonNull<u8>,
        mode: Mode,
        /// Closed after the mapping is gone; the driver then waits for what the queue still has of us (`idxd_cdev_release`).
        _file: File,
    }

    // SAFETY: a portal takes 64-byte writes from any number of threads at once.
    unsafe impl Send for Mapped {}
    // SAFETY: as for `Send`.
    unsafe impl Sync for Mapped {}

    impl Mapped {
        pub fn new(file: File, mode: Mode) -> Result<Self, Errno> {
            // SAFETY: a fresh mapping of a device's page that is neither read nor the place of any Rust value.
            let at = unsafe {
                mmap(
                    ptr::null_mut(),
                    PORTAL,
                    ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::POPULATE,
                    &file,
                    0,
                )
            }?;
            let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
            Ok(Self { at, mode, _file: file })
        }
    }

    impl Mapped {
        /// The address of a slot.
        fn line(&self, slot: usize) -> *mut u8 {
            // SAFETY: within the page that is mapped.
            unsafe { self.at.as_ptr().add(slot % SLOTS * size_of::<Descriptor>()) }
        }
    }

    impl Portal for Mapped {
        unsafe fn submit(&self, descriptor: &Descriptor, slot: usize) -> Accepted {
            let to = self.line(slot);
            // What the descriptor points to has been written before the device looks: both instructions are weakly ordered.
            // SAFETY: every x86-64 CPU has SSE.
            unsafe { _mm_sfence() };
            match self.mode {
                // SAFETY: the portal is mapped, and its slots are aligned; `open` has looked for the instruction; the caller promises the rest.
                Mode::Dedicated => unsafe {
                    movdir64b(to, descriptor);
                    Accepted::Yes
                },
                // SAFETY: as above.
                Mode::Shared => unsafe { enqcmd(to, descriptor) },
            }
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping of `new`, used only through `self`. An error would mean that it isn't there.
            let _ = unsafe { munmap(self.at.as_ptr().cast(), PORTAL) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn slots_are_the_lines_of_the_page() {
            let file = tempfile::tempfile().unwrap();
            file.set_len(PORTAL as u64).unwrap();
            let portal = Mapped::new(file, Mode::Shared).unwrap();
            let lines = (0..SLOTS).map(|slot| portal.line(slot).addr() - portal.at.as_ptr().addr());
            assert_eq!(lines.collect::<Vec<_>>(), (0..PORTAL).step_by(64).collect::<Vec<_>>());
            assert_eq!(portal.line(SLOTS + 3), portal.line(3));
        }

        /// MOVDIR64B writes to any memory: a file's page takes the place of the device's.
        #[test]
        fn descriptors_arrive_whole_each_at_its_slot() {
            if !has_movdir64b() {
                eprintln!("skipped: this CPU has no MOVDIR64B");
                return;
            }
            let file = tempfile::tempfile().unwrap();
            file.set_len(PORTAL as u64).unwrap();
            let portal = Mapped::new(file.try_clone().unwrap(), Mode::Dedicated).unwrap();
            let descriptor = |slot: usize| {
                let flags = super::super::super::Flags::CACHE;
                Descriptor::mem_move(flags, 0x1234, 0x5678, slot as u32, 0x40)
            };
            // One more than there are: the first once more, as of the last.
            for slot in 0..=SLOTS {
                // SAFETY: nobody reads addresses out of a file.
                assert_eq!(unsafe { portal.submit(&descriptor(slot), slot) }, Accepted::Yes);
            }
            drop(portal);
            let mut bytes = [0; PORTAL];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
            let wanted = std::iter::once(SLOTS).chain(1..SLOTS).map(descriptor);
            for (slot, (line, descriptor)) in bytes.chunks_exact(64).zip(wanted).enumerate() {
                assert_eq!(line, zerocopy::IntoBytes::as_bytes(&descriptor), "slot {slot}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_not_there_is_missing() {
        let error = open(Path::new("/nonexistent/dsa/wq0.0"), Mode::Shared).unwrap_err();
        assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    }
}
