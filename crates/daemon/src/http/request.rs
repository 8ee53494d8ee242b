//! The head of a request.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A request of a scraper has some hundred bytes.
const MAX_REQUEST: usize = 8 << 10;

/// The first line of a request, once its head is complete; `None` if it is too long or breaks off.
pub(super) async fn read(connection: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = connection.read(&mut buffer).await?;
        if read == 0 || head.len() + read > MAX_REQUEST {
            return Ok(None);
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            return Ok(Some(String::from_utf8_lossy(line).into_owned()));
        }
    }
}
