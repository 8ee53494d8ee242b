//! What the model copies from and to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The process's memory as a device meets it: a page that isn't there is told, instead of killing who looks at it.
#[derive(Debug)]
pub(super) struct Memory(File);

/// A page that wasn't there.
pub(super) struct Fault {
    /// Bytes that were done before.
    pub completed: u32,
    /// It was to be written to.
    pub on_write: bool,
}

impl Memory {
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::options().read(true).write(true).open("/proc/self/mem")?))
    }

    /// Copies from address to address, as far as there are pages.
    pub fn copy(&self, source: u64, destination: u64, len: u32) -> Result<(), Fault> {
        let mut piece = [0; 4096];
        let mut completed = 0;
        while completed < len {
            let room = piece.len().min((len - completed) as usize);
            let read = self.0.read_at(&mut piece[..room], source + u64::from(completed)).unwrap_or(0);
            if read == 0 {
                return Err(Fault { completed, on_write: false });
            }
            let written = self.0.write_at(&piece[..read], destination + u64::from(completed)).unwrap_or(0);
            completed += written as u32;
            if written < read {
                return Err(Fault { completed, on_write: true });
            }
        }
        Ok(())
    }

    /// Writes something wrong.
    pub fn spoil(&self, destination: u64, len: u32) {
        // Fails where no page is: then nothing was spoilt.
        let _ = self.0.write_at(&vec![0xee; len as usize], destination);
    }
}
