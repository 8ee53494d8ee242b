//! Lines of JSON with a checksum at the end.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// The last line of what belongs together.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    crc32: String,
}

/// Writes lines and sums them up.
pub(super) struct LineWriter<W> {
    out: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> LineWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, sum: crc32fast::Hasher::new() }
    }

    pub(super) fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self, value)?;
        self.write_all(b"\n")
    }

    /// What is written so far, as the text of its last line.
    pub(super) fn trailer(&self) -> io::Result<String> {
        let crc32 = format!("{:08x}", self.sum.clone().finalize());
        Ok(serde_json::to_string(&Trailer { crc32 })? + "\n")
    }

    /// Writes the last line.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let trailer = self.trailer()?;
        self.out.write_all(trailer.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads whole lines and sums them up.
pub(super) struct LineReader<R> {
    input: R,
    text: String,
    sum: crc32fast::Hasher,
    /// Lines read so far.
    pub(super) number: usize,
    /// Bytes read so far, whole lines only.
    pub(super) bytes: u64,
}

/// What a line is.
pub(super) enum Line<'a> {
    /// One of those that belong together.
    Text(&'a str),
    /// The last of them, and the sum is right.
    Good,
    /// The last of them, and the sum is wrong.
    Bad {
        /// What the bytes give.
        found: String,
        /// What the line says.
        written: String,
    },
    /// Bytes that are no text, or more of them than a line has: damage.
    NoText,
    /// There is no further whole line.
    End,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, text: String::new(), sum: crc32fast::Hasher::new(), number: 0, bytes: 0 }
    }

    pub(super) fn next(&mut self) -> io::Result<Line<'_>> {
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        if !self.read_line(&mut bytes)? {
            return Ok(Line::NoText);
        }
        // A character, too, may have been cut through.
        if !bytes.ends_with(b"\n") {
            return Ok(Line::End);
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.text = text,
            Err(_) => return Ok(Line::NoText),
        }
        self.number += 1;
        self.bytes += self.text.len() as u64;
        let text = self.text.trim_end_matches('\n');
        // Only a last line can have this beginning: others begin with what they hold.
        if text.starts_with("{\"crc32\"") {
            let found = format!("{:08x}", std::mem::take(&mut self.sum).finalize());
            return Ok(match serde_json::from_str::<Trailer>(text) {
                Ok(trailer) if trailer.crc32 == found => Line::Good,
                Ok(trailer) => Line::Bad { found, written: trailer.crc32 },
                Err(_) => Line::Bad { found, written: text.to_owned() },
            });
        }
        self.sum.update(self.text.as_bytes());
        Ok(Line::Text(text))
    }

    /// Reads to the end of a line; false where that is no text, as in a file of zeros, or has no end.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let piece = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            let end = piece.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let taken = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
            if taken.contains(&0) || line.len() + taken.len() > MAX_LINE {
                return Ok(false);
            }
            line.extend_from_slice(taken);
            let length = taken.len();
            self.input.consume(length);
            if end.is_some() || length == 0 {
                return Ok(true);
            }
        }
    }
}

/// Longest line: an object that a client could send has far less.
const MAX_LINE: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    /// A crash cuts anywhere, also within a character: that is an end, and only a whole line of other bytes is damage.
    #[test]
    fn an_end_within_a_character_is_an_end() {
        let whole = "{\"path\":\"/höhe\"}\n".as_bytes();
        for length in 0..whole.len() {
            let mut lines = LineReader::new(&whole[..length]);
            assert!(matches!(lines.next().unwrap(), Line::End), "cut at {length}");
        }
        assert!(matches!(LineReader::new(whole).next().unwrap(), Line::Text(_)));
        assert!(matches!(LineReader::new(&b"\xff\n"[..]).next().unwrap(), Line::NoText));
    }

    #[test]
    fn a_file_of_zeros_is_not_read_to_its_end() {
        let zeros = io::BufReader::new(io::repeat(0));
        assert!(matches!(LineReader::new(zeros).next().unwrap(), Line::NoText));
    }
}
