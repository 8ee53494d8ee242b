//! Interfaces to send to and receive from.
//!
//! | file | what |
//! |---|---|
//! | `traffic` | who makes packets, and who takes frames: what any kind of traffic brings |
//! | `frame` | bytes of frames, wherever they lie |
//! | `spec` | how an interface is named on the command line and in profiles |
//! | `memif` | memif, client or server, and a pair of both within this process |
//! | `socket` | a Linux interface through a packet socket |
//! | `tap` | a Linux interface of its own, whose other side we are |
//! | `private` | what the latter two have in common: frames in private memory, one system call each |
//!
//! All of them hand over frames by the same two methods of [`Link`], generic over who makes and who takes packets: whatever
//! kind of traffic it is.

mod error;
mod frame;
mod memif;
mod netns;
mod private;
mod socket;
pub mod spec;
mod tap;
mod traffic;

pub use self::memif::MemifLink;
pub use error::LinkError;
pub use frame::{Parts, Target, View};
pub use private::PrivateLink;
pub use spec::{InterfaceSpec, Kind, MemifSpec, Role};
pub use traffic::{Packets, Receiver};

use crate::plan::{Interfaces, Plan};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a device may take nothing before that is [`LinkError::Stuck`].
pub const STUCK: Duration = Duration::from_secs(5);

/// An interface that is up.
#[derive(Debug)]
pub enum Link {
    /// memif.
    Memif(Box<MemifLink>),
    /// A packet socket or a tap.
    Private(Box<PrivateLink>),
}

impl Link {
    /// Brings up all interfaces of a plan, at once: those that wait for each other must not do so in turn.
    ///
    /// # Errors
    /// [`LinkError`] of the first that can't be had; [`LinkError::Stopped`] where `stop` is set before it is up.
    pub fn all(plan: &Plan, stop: &AtomicBool) -> Result<Vec<Self>, LinkError> {
        let specs = match &plan.interfaces {
            Interfaces::Named(specs) => specs,
            Interfaces::Loop(spec) => {
                let (client, server) = Self::pair(spec)?;
                return Ok(vec![client, server]);
            }
        };
        std::thread::scope(|scope| {
            let opening: Vec<_> =
                specs.iter().map(|spec| scope.spawn(|| Self::open(spec, plan.wait, stop))).collect();
            let opened = opening
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            opened.collect()
        })
    }

    /// Both ends of a memif within this process: the client's end, and the server's.
    ///
    /// # Errors
    /// [`LinkError::Option`], [`LinkError::Memif`].
    pub fn pair(spec: &MemifSpec) -> Result<(Self, Self), LinkError> {
        let (client, server) = MemifLink::pair(spec)?;
        Ok((Self::Memif(Box::new(client)), Self::Memif(Box::new(server))))
    }

    /// Brings up an interface. Blocks until it is up, for `wait` seconds, or until `stop` is set.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn open(spec: &InterfaceSpec, wait: f64, stop: &AtomicBool) -> Result<Self, LinkError> {
        Ok(match &spec.kind {
            Kind::Memif(memif) => Self::Memif(Box::new(MemifLink::open(&spec.name, memif, wait, stop)?)),
            Kind::Packet { device, netns } => {
                Self::Private(Box::new(socket::open(&spec.name, device, netns.as_deref())?))
            }
            Kind::Tap { device, netns } => {
                Self::Private(Box::new(tap::open(&spec.name, device, netns.as_deref())?))
            }
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Memif(link) => link.name(),
            Self::Private(link) => link.name(),
        }
    }

    /// Queues to send to.
    #[must_use]
    pub fn queues(&self) -> usize {
        match self {
            Self::Memif(link) => link.tx_queues(),
            Self::Private(_) => 1,
        }
    }

    /// Whether each of its frames is a system call.
    #[must_use]
    pub const fn is_kernel(&self) -> bool {
        matches!(self, Self::Private(_))
    }

    /// Number of buffers of a queue whose bytes nobody else writes: what was written there before is still there when the
    /// buffer comes round again. With the buffers' size.
    #[must_use]
    pub fn own_buffers(&self, queue: usize) -> Option<(u64, u32)> {
        match self {
            Self::Memif(link) => link.own_buffers(queue),
            Self::Private(_) => None,
        }
    }

    /// Sends the first `n` packets, as far as there is room; gives how many were sent. See [`Packets::write`] for `rest`.
    ///
    /// # Errors
    /// [`LinkError::Lost`].
    #[inline(always)]
    pub fn transmit<P: Packets>(
        &mut self,
        queue: usize,
        n: usize,
        packets: &P,
        rest: bool,
    ) -> Result<usize, LinkError> {
        match self {
            Self::Memif(link) => link.transmit(queue, n, packets, rest),
            Self::Private(link) => link.transmit(n, packets),
        }
    }

    /// Receives what is there; gives how many frames.
    ///
    /// # Errors
    /// [`LinkError::Lost`].
    #[inline(always)]
    pub fn receive<R: Receiver>(&mut self, receiver: &mut R) -> Result<usize, LinkError> {
        match self {
            Self::Memif(link) => link.receive(receiver),
            Self::Private(link) => link.receive(receiver),
        }
    }

    /// Bytes that its frames may lack when they come in: a packet socket doesn't show the outermost VLAN tag.
    #[must_use]
    pub fn hidden(&self) -> u32 {
        match self {
            Self::Memif(_) => 0,
            Self::Private(link) => link.hidden(),
        }
    }

    /// Frames that came to it since it was opened and that the kernel threw away, because they weren't taken in time. `None`
    /// where the kernel doesn't say, and for memif: there, whoever sends finds the ring full.
    pub fn dropped(&mut self) -> Option<u64> {
        match self {
            Self::Memif(_) => None,
            Self::Private(link) => link.dropped(),
        }
    }

    /// How many more [were dropped](Self::dropped) than `before`.
    pub fn dropped_since(&mut self, before: Option<u64>) -> Option<u64> {
        Some(self.dropped()? - before?)
    }

    /// Whether it is still up.
    ///
    /// # Errors
    /// [`LinkError::Lost`] when it isn't.
    pub fn check(&mut self) -> Result<(), LinkError> {
        match self {
            Self::Memif(link) => link.check(),
            Self::Private(_) => Ok(()),
        }
    }
}
