//! Opening a generator.

use super::queue::GeneratorRx;
use super::template::{Template, Vary};
use crate::port::{LinkLayer, NoLink, Port, PortFacts};
use crate::timer::Timer;
use crate::{PortError, sink};
use graph::port::RxQueue;
use std::sync::Arc;

/// What a generator is to make.
#[derive(Clone, Debug)]
pub struct GeneratorOptions {
    /// A name for people.
    pub name: String,
    /// What the frames begin with.
    pub link: LinkLayer,
    /// Templates, used in turn; at least one, each 1 to 65535 bytes of IP packet and its link header.
    pub frames: Vec<Vec<u8>>,
    /// What changes from packet to packet.
    pub vary: Vec<Vary>,
    /// What changes is drawn instead of counting up; the same packets come whenever it begins.
    pub random: bool,
    /// Packets per second, of all queues together; 0: as many as are taken.
    pub rate: u64,
    /// Packets after which it stops; 0: never.
    pub count: u64,
    /// Receive queues, at least 1; each makes its share.
    pub rx_queues: u16,
    /// Transmit queues, for what is sent to it.
    pub tx_queues: u16,
}

impl GeneratorOptions {
    /// One Ethernet frame again and again, as fast as it is taken, by one queue.
    #[must_use]
    pub fn new(name: impl Into<String>, frame: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            link: LinkLayer::Ethernet,
            frames: vec![frame],
            vary: Vec::new(),
            random: false,
            rate: 0,
            count: 0,
            rx_queues: 1,
            tx_queues: 1,
        }
    }
}

/// Longest frame: what IP can carry, and a link header with two tags.
const LONGEST: usize = 65535 + 22;

/// Opens a generator. It begins when its queues are first asked.
///
/// # Errors
/// [`PortError::Option`] for frames that can't be or lack what is to vary, [`PortError::System`] where a timer can't be
/// made.
pub fn open(options: &GeneratorOptions) -> Result<Port, PortError> {
    let port = format!("generator {}", options.name);
    let wrong = |field, problem: String| PortError::Option { port: port.clone(), field, problem };
    if options.frames.is_empty() {
        return Err(wrong("frames", "are none: at least one is needed".into()));
    }
    if options.rx_queues == 0 {
        return Err(wrong("rx_queues", "is 0: at least 1 is needed".into()));
    }
    let mut templates = Vec::new();
    for (number, frame) in options.frames.iter().enumerate() {
        if !(1..=LONGEST).contains(&frame.len()) {
            let problem = format!("{number} has {} bytes: it can have 1 to {LONGEST}", frame.len());
            return Err(wrong("frame", problem));
        }
        let template = Template::new(frame.clone(), options.link, &options.vary);
        templates.push(template.map_err(|problem| wrong("frame", format!("{number} {problem}")))?);
    }
    let templates: Arc<[Template]> = templates.into();
    let queues = u64::from(options.rx_queues);
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    for queue in 0..queues {
        let timer = Timer::new().map_err(|error| PortError::system(&port, "make a timer", error))?;
        rx.push(Box::new(GeneratorRx::new(Arc::clone(&templates), timer, options, queue, queues)));
    }
    Ok(Port {
        rx,
        tx: sink::queues(options.tx_queues),
        facts: PortFacts {
            name: options.name.clone(),
            link: options.link,
            mac: None,
            mtu: u32::from(u16::MAX),
            host_ifindex: None,
            offload: true,
        },
        link: Arc::new(NoLink),
        output: None,
        control: Box::new(sink::Nothing),
    })
}
