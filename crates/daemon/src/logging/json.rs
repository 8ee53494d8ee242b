//! Lines of the log for programs.

use std::io::{self, Write};

use api::escape;

/// Writes lines of JSON in which all characters are plain: who looks at them in a terminal sees what they say.
#[derive(Debug)]
pub(super) struct PlainJson<W>(pub(super) W);

impl<W: Write> Write for PlainJson<W> {
    /// Takes whole lines, as the subscriber writes them.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(lines);
        self.0.write_all(escape::json(&text).as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
