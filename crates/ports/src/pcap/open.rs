//! Opening capture files as a port.

use super::play::{PcapRx, Recording};
use super::write::Writer;
use crate::port::{LinkLayer, NoLink, Port, PortControl, PortFacts};
use crate::timer::Timer;
use crate::wrap::capture::CaptureFile;
use crate::{PortError, sink};
use graph::port::{RxQueue, TxQueue};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use wire::LinkType;

/// How fast a file is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At the times that the file gives.
    #[default]
    Original,
    /// As fast as packets are taken.
    Max,
}

/// Capture files to play and to write.
#[derive(Clone, Debug, Default)]
pub struct PcapOptions {
    /// A name for people, and of the interface in the file that is written.
    pub name: String,
    /// File whose packets are received; pcap or pcapng. `None`: none.
    pub rx_file: Option<PathBuf>,
    /// File to which sent packets are written, as pcapng; replaced if it exists. `None`: they are forgotten.
    pub tx_file: Option<PathBuf>,
    /// How fast the file is played.
    pub pace: Pace,
    /// Times that it is played; 0: again and again.
    pub repeat: u64,
    /// What sent packets begin with, where no file that is played says it.
    pub link: Option<LinkLayer>,
    /// Transmit queues, one for each worker that sends.
    pub tx_queues: u16,
}

impl PcapOptions {
    /// Plays nothing and writes nothing; one transmit queue, and once where a file is given.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), repeat: 1, tx_queues: 1, ..Self::default() }
    }
}

/// Opens the files. The one to be played is read whole. Blocks.
///
/// # Errors
/// [`PortError`] names the file and what is wrong with it.
pub fn open(options: &PcapOptions) -> Result<Port, PortError> {
    let port = format!("pcap {}", options.name);
    let system = |action: String| {
        let port = port.clone();
        move |error: io::Error| PortError::system(port, action, error)
    };
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    let mut link = options.link;
    let mut mtu = u32::from(u16::MAX);
    if let Some(path) = &options.rx_file {
        let recording = Recording::read(path).map_err(system(format!("play {}", path.display())))?;
        if link.is_some() && link != recording.link {
            let problem = format!("holds packets that begin with another layer: {}", path.display());
            return Err(PortError::Option { port, field: "rx_file", problem });
        }
        link = recording.link;
        mtu = mtu.max(recording.longest as u32);
        let timer = Timer::new().map_err(system("make a timer".into()))?;
        rx.push(Box::new(PcapRx::new(recording, options.pace, options.repeat, timer)));
    }
    let link = link.unwrap_or(LinkLayer::Ethernet);
    let mut tx: Vec<Box<dyn TxQueue>> = Vec::new();
    let mut writer = None;
    match &options.tx_file {
        None => tx.extend(sink::queues(options.tx_queues)),
        Some(path) => {
            let kind = match link {
                LinkLayer::Ethernet => LinkType::ETHERNET,
                LinkLayer::Ip => LinkType::RAW,
            };
            let file = CaptureFile::create(path).and_then(|mut file| {
                file.interface(kind, &options.name, 0)?;
                file.flush()?;
                Ok(file)
            });
            let file =
                file.map_err(|error| system(format!("write {}", error.path.display()))(error.source))?;
            let (thread, queues) =
                Writer::start(file, options.tx_queues).map_err(system("start the file's writer".into()))?;
            tx.extend(queues);
            writer = Some(thread);
        }
    }
    Ok(Port {
        rx,
        tx,
        facts: PortFacts {
            name: options.name.clone(),
            link,
            mac: None,
            mtu,
            host_ifindex: None,
            // Files show packets as they would be on a wire.
            offload: options.tx_file.is_none(),
        },
        link: writer.as_ref().map_or_else(|| Arc::new(NoLink) as _, Writer::link),
        output: None,
        control: Box::new(PcapControl { writer }),
    })
}

struct PcapControl {
    writer: Option<Writer>,
}

impl PortControl for PcapControl {
    /// Waits up to a second for what was sent to be in the file, if the queues are gone.
    fn remove(mut self: Box<Self>) -> Result<(), PortError> {
        if let Some(writer) = self.writer.take() {
            writer.finish();
        }
        Ok(())
    }
}
