//! A capture file.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use wire::LinkType;
use wire::capture::{Direction, pcapng};

/// A pcapng file being written.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    file: BufWriter<File>,
    block: Vec<u8>,
    interfaces: u32,
}

/// A capture file can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write {path}: {source}", path = path.display())]
pub struct CaptureFileError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl CaptureFile {
    /// Makes the file, or empties the one that is there; it may be a pipe. Never waits: of a pipe with readers that are behind it fails, until
    /// [`CaptureFile::wait`] is called.
    ///
    /// # Errors
    /// [`CaptureFileError`] where it can't be made or written, or is a pipe that nobody reads.
    pub fn create(path: &Path) -> Result<Self, CaptureFileError> {
        let error = |source| CaptureFileError { path: path.into(), source };
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(nonblock);
        let file = options.open(path).map_err(|source| match source.raw_os_error() {
            Some(number) if number == Errno::NXIO.raw_os_error() => {
                error(io::Error::other("it is a pipe that nobody reads: start its reader first"))
            }
            _ => error(source),
        })?;
        let file = BufWriter::with_capacity(1 << 16, file);
        let mut capture = Self { path: path.into(), file, block: Vec::new(), interfaces: 0 };
        pcapng::section_header(&mut capture.block, "Quiver");
        capture.write()?;
        Ok(capture)
    }

    /// From now on whoever writes waits for readers of a pipe that are behind.
    ///
    /// # Errors
    /// [`CaptureFileError`].
    pub fn wait(&mut self) -> Result<(), CaptureFileError> {
        let file = self.file.get_ref();
        let flags = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags - OFlags::NONBLOCK));
        flags.map_err(|error| CaptureFileError { path: self.path.clone(), source: error.into() })
    }

    /// Describes a further interface and returns its number in the file.
    ///
    /// # Errors
    /// [`CaptureFileError`].
    pub fn interface(&mut self, link: LinkType, name: &str, snap_len: u32) -> Result<u32, CaptureFileError> {
        pcapng::interface(&mut self.block, link, name, snap_len);
        self.write()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet of interface number `interface` of this file.
    ///
    /// # Errors
    /// [`CaptureFileError`].
    pub fn packet(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        bytes: &[u8],
        original_len: u32,
        direction: Option<Direction>,
        comment: &str,
    ) -> Result<(), CaptureFileError> {
        let packet =
            pcapng::Packet { interface, timestamp_ns, original_len, pieces: &[bytes], direction, comment };
        pcapng::packet(&mut self.block, &packet);
        self.write()
    }

    /// Puts what was written into the file.
    ///
    /// # Errors
    /// [`CaptureFileError`].
    pub fn flush(&mut self) -> Result<(), CaptureFileError> {
        self.file.flush().map_err(|source| CaptureFileError { path: self.path.clone(), source })
    }

    fn write(&mut self) -> Result<(), CaptureFileError> {
        let written = self.file.write_all(&self.block);
        self.block.clear();
        written.map_err(|source| CaptureFileError { path: self.path.clone(), source })
    }
}
