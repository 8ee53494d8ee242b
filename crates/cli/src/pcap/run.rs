//! The capture.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::v1::{CaptureRequest, CaptureResponse};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Streaming;

use super::StartArgs;
use super::file::File;
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::render::number::memory;

/// How often the line that says how far it is is written anew.
const PROGRESS: Duration = Duration::from_millis(500);

/// How a capture came to its end.
enum End {
    /// quiverd has sent as many as were asked for.
    Enough,
    /// The time is over, or the user wants no more.
    Stopped,
    /// Whoever reads the pipe has gone.
    ReaderGone,
}

/// Captures until the end.
pub(super) async fn start(context: &Context, args: &StartArgs) -> Result<Exit, Error> {
    // Connect first: without quiverd an existing file shall not be replaced by an empty one.
    let mut client = context.connect().await?;
    let stream = client
        .capture(CaptureRequest {
            interfaces: args.interfaces.clone(),
            rx: args.rx,
            tx: args.tx,
            drop: args.drop,
            count: args.count.unwrap_or(0),
            snap_length: args.snaplen,
        })
        .await
        .doing("pcap start")?;
    let mut capture = Capture {
        file: open(&args.write, args.snaplen)?,
        path: args.write.clone(),
        packets: 0,
        limit: args.count,
        missed: 0,
    };
    let end = capture.run(stream, args.duration).await;
    if !matches!(end, Ok(End::ReaderGone)) {
        context.remark(&format!("{}{}", clear_line(), capture.progress()));
    }
    if capture.missed > 0 {
        context.remark(
            "packets are missed when they come faster than they are written: take --snaplen or --interface",
        );
    }
    end.map(|_| Exit::Done)
}

/// Opens the file or standard output, and begins it.
fn open(path: &Path, snap_length: u32) -> Result<File<Box<dyn Write>>, Error> {
    let written = |source| Error::Write { path: path.to_owned(), source };
    let out: Box<dyn Write> = if path == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(Error::Usage(
                "a capture is no text for a terminal: pipe it (| wireshark -k -i -) or name a file".into(),
            ));
        }
        Box::new(io::stdout())
    } else {
        Box::new(fs::File::create(path).map_err(written)?)
    };
    File::new(out, snap_length).map_err(written)
}

/// A capture under way.
struct Capture {
    file: File<Box<dyn Write>>,
    path: PathBuf,
    packets: u64,
    limit: Option<u64>,
    missed: u64,
}

impl Capture {
    /// Writes what comes until one of the ends.
    async fn run(
        &mut self,
        mut stream: Streaming<CaptureResponse>,
        duration: Option<Duration>,
    ) -> Result<End, Error> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Output)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Output)?;
        let timeout = async {
            match duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timeout);
        let mut progress = interval(PROGRESS);
        progress.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                part = stream.message() => match part.doing("pcap start")? {
                    Some(part) => match self.append(part) {
                        Ok(()) if self.limit.is_some_and(|limit| self.packets >= limit) => return Ok(End::Enough),
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(End::ReaderGone),
                        Err(source) => return Err(Error::Write { path: self.path.clone(), source }),
                    },
                    None => return Err(Error::Ended { doing: "pcap start" }),
                },
                () = &mut timeout => return Ok(End::Stopped),
                _ = interrupt.recv() => return Ok(End::Stopped),
                _ = terminate.recv() => return Ok(End::Stopped),
                _ = progress.tick() => {
                    if io::stderr().is_terminal() {
                        // A remark that can't be made is no reason to end.
                        let _ = write!(io::stderr(), "{}{}", clear_line(), self.progress());
                    }
                }
            }
        }
    }

    fn append(&mut self, mut part: CaptureResponse) -> io::Result<()> {
        if let Some(limit) = self.limit {
            // Workers count each for itself, so a few more than asked for may come.
            let room = usize::try_from(limit - self.packets).unwrap_or(usize::MAX);
            part.packets.truncate(room);
        }
        self.packets += part.packets.len() as u64;
        self.missed = part.missed;
        self.file.append(&part.packets)
    }

    /// "1234 packets, 1.20 MiB, 3 missed".
    fn progress(&self) -> String {
        let missed = if self.missed > 0 { format!(", {} missed", self.missed) } else { String::new() };
        format!("{} packets, {}{missed}", self.packets, memory(self.file.bytes()))
    }
}

/// Back to the start of the line on a terminal.
fn clear_line() -> &'static str {
    if io::stderr().is_terminal() { "\r\x1b[K" } else { "" }
}
