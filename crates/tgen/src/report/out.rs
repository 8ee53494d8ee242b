//! Results go to standard output, what is said of them to standard error.

use std::io::{self, Write};

/// Prints a result. Whoever closed the pipe wants no more of it: that is no error.
///
/// # Errors
/// Any other reason why it can't be written, such as a full disk.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Says a line on standard error, if anybody listens.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
