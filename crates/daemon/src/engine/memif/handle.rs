//! What the engine has of the memif sockets.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::memif::region::HugePages;
use graph::port::{Attachment, IfIndex, PortFault};
use rustix::io::Errno;

use super::super::events::Bell;
use super::super::passage::Attachments;
use super::doorbells;
use super::links::Links;
use super::settings::Made;
use super::sockets::Sockets;
use crate::model::Flaw;
use crate::model::spec::{InterfaceSpec, MemifSpec};

/// Something to do with the sockets.
#[derive(Debug)]
pub(super) enum Order {
    /// Listen or connect for an interface.
    Open {
        /// Its index.
        index: IfIndex,
        /// Its name.
        name: String,
        /// Where and how.
        spec: Box<MemifSpec>,
        /// What became of it.
        done: Sender<Result<(), Flaw>>,
    },
    /// End the interface's link, and neither listen nor connect for it any more.
    Close {
        /// Its index.
        index: IfIndex,
        /// When it is done.
        done: Sender<()>,
    },
    /// Disconnect the peer, who broke the rules of the rings; unless its link has ended already.
    Fault {
        /// The interface.
        index: IfIndex,
        /// The queues that met it.
        attachment: Attachment,
        /// What it did.
        fault: PortFault,
    },
}

/// The engine's hold on the memif sockets, which belong to their [thread](super::thread).
#[derive(Debug)]
pub(in super::super) struct Memifs {
    orders: Sender<Order>,
    bell: Arc<Bell>,
    links: Arc<Mutex<Links>>,
}

/// What the thread begins with.
#[derive(Debug)]
pub(in super::super) struct Beginning {
    pub(super) orders: Receiver<Order>,
    pub(super) bell: Arc<Bell>,
    pub(super) sockets: Sockets,
}

impl Memifs {
    /// The hold on a thread that is still to be started, and what it begins with. `workers`: the core of each worker that has one.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(in super::super) fn new(
        attachments: &Arc<Attachments>,
        huge_pages: HugePages,
        workers: &[Option<usize>],
    ) -> Result<(Self, Beginning), Errno> {
        let (sender, orders) = channel();
        let bell = Arc::new(Bell::new()?);
        let links = Arc::new(Mutex::default());
        let made = Made { huge_pages, signals: doorbells::signals(workers) };
        let sockets = Sockets::new(Arc::clone(&links), Arc::clone(attachments), made)?;
        sockets.hear(bell.fd())?;
        let memifs = Self { orders: sender, bell: Arc::clone(&bell), links };
        Ok((memifs, Beginning { orders, bell, sockets }))
    }

    /// Begins to listen or to connect for interface `index`. The engine's lock must not be held: the thread takes it.
    ///
    /// # Errors
    /// [`Flaw`] where the socket can't be had.
    pub(in super::super) fn open(
        &self,
        index: IfIndex,
        spec: &InterfaceSpec,
        memif: &MemifSpec,
    ) -> Result<(), Flaw> {
        let (done, answer) = channel();
        self.order(Order::Open { index, name: spec.name.to_string(), spec: Box::new(memif.clone()), done });
        answer
            .recv()
            .unwrap_or_else(|_| Err(Flaw::new("memif", "the thread that serves memif sockets has ended")))
    }

    /// Ends the interface's link and stops to listen or to connect for it: when this returns, no link comes up any more. The
    /// engine's lock must not be held: the thread takes it.
    pub(in super::super) fn close(&self, index: IfIndex) {
        let (done, answer) = channel();
        self.order(Order::Close { index, done });
        // An error means that the thread has ended, and its sockets with it.
        let _ = answer.recv();
    }

    /// Ends the link of an interface whose peer broke the rules of the rings, soon.
    pub(in super::super) fn fault(&self, index: IfIndex, attachment: Attachment, fault: PortFault) {
        self.order(Order::Fault { index, attachment, fault });
    }

    /// Has the thread look whether it is to stop.
    pub(in super::super) fn wake(&self) {
        self.bell.ring();
    }

    /// What is known of the links.
    pub(in super::super) fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) {
        // An error means that the thread has ended.
        let _ = self.orders.send(order);
        self.bell.ring();
    }
}
