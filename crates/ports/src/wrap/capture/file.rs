//! A capture file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
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
    /// Makes the file, or empties the one that is there.
    ///
    /// # Errors
    /// [`CaptureFileError`] where it can't be made or written.
    pub fn create(path: &Path) -> Result<Self, CaptureFileError> {
        let error = |source| CaptureFileError { path: path.into(), source };
        let file = BufWriter::with_capacity(1 << 16, File::create(path).map_err(error)?);
        let mut capture = Self { path: path.into(), file, block: Vec::new(), interfaces: 0 };
        pcapng::section_header(&mut capture.block, "Quiver");
        capture.write()?;
        Ok(capture)
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
