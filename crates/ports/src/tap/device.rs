//! Making a device, or taking over one that is there.

use super::options::{TapMode, TapOptions};
use super::queue::TapQueue;
use crate::link::{self, LinkInfo};
use crate::netns::Netns;
use crate::output::{OutputThreads, outputs};
use crate::port::{Held, Port, PortControl, PortFacts};
use crate::sys::tun;
use crate::vnet_queue::VnetRx;
use crate::{PortError, vnet};
use graph::port::RxQueue;
use rustix::fs::{Mode, OFlags, open as open_file};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Makes the device, or takes over a persistent one of that name, and sets its kernel side up. Blocks.
///
/// # Errors
/// [`PortError`]: options that can't be, a namespace that isn't there, a device of that name that is no such tap or
/// is held by another process, or what the kernel refused. A device that was made on the way is removed again.
pub fn open(options: &TapOptions) -> Result<Port, PortError> {
    options.check()?;
    let before = link::get(&options.netns, &options.name)?;
    if let Some(info) = &before {
        check_existing(options, info)?;
    }
    let files = options.netns.run(|| attach(options, before.is_some()))??;
    let changed = link::change(&options.netns, &options.name, &options.former, &options.host);
    let (info, link) = changed
        .and_then(|info| {
            let link = link::watch(&options.netns, &info.name, info.index)?;
            Ok((info, link))
        })
        .inspect_err(|_| {
            if before.is_none() && options.persist {
                // What failed is reported; that a device without a queue stays behind as well would be noise.
                let _ = files.iter().try_for_each(|file| tun::set_persist(file.as_fd(), false));
            }
        })?;
    let name: Arc<str> = options.port().into();
    let queue = |file: &Arc<OwnedFd>| TapQueue(Arc::clone(file));
    let rx = files
        .iter()
        .map(|file| -> Box<dyn RxQueue> { Box::new(VnetRx::new(queue(file), Arc::clone(&name))) });
    let devices = files.iter().map(queue).collect();
    let (tx, threads) = outputs(devices, options.tx_queues, &name, &format!("tx-{}", options.name))
        .map_err(|error| PortError::system(options.port(), "start a thread for its output", error))?;
    Ok(Port {
        rx: rx.collect(),
        tx,
        facts: PortFacts {
            name: info.name.clone(),
            link: options.mode.link(),
            mac: info.mac.filter(|_| options.mode == TapMode::Tap),
            mtu: info.mtu,
            host_ifindex: Some(info.index),
            offload: true,
        },
        link,
        output: Some(threads.clone()),
        control: Box::new(TapControl { netns: options.netns.clone(), name: info.name, files, threads }),
    })
}

/// A device that is there already must be a free one of the right kind.
fn check_existing(options: &TapOptions, info: &LinkInfo) -> Result<(), PortError> {
    let port = options.port();
    let other = |problem: &str| PortError::InUse { port: port.clone(), by: problem.into() };
    let Some(device) = info.tun else {
        return Err(other("a device of this name exists that is neither tap nor tun"));
    };
    match (device.tap, options.mode) {
        (true, TapMode::Tun) => return Err(other("a tap device of this name exists")),
        (false, TapMode::Tap) => return Err(other("a tun device of this name exists")),
        _ => {}
    }
    if !device.multi_queue {
        return Err(other(
            "a device of this name exists that was made by another program, for one queue only",
        ));
    }
    if device.queues > 0 {
        return Err(other(&format!("{} of its queues are open in a running process", device.queues)));
    }
    Ok(())
}

fn attach(options: &TapOptions, existed: bool) -> Result<Vec<Arc<OwnedFd>>, PortError> {
    let system = |action: &'static str| {
        let port = options.port();
        move |error: io::Error| PortError::system(port.clone(), action, error)
    };
    let kind = match options.mode {
        TapMode::Tap => tun::TAP,
        TapMode::Tun => tun::TUN,
    };
    // Always with several queues, so that their number can change when a persistent device is taken over.
    let flags = kind | tun::NO_PI | tun::VNET_HDR | tun::MULTI_QUEUE;
    let mut files = Vec::new();
    for _ in 0..options.rx_queues {
        let path = "/dev/net/tun";
        let file = open_file(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(io::Error::from).map_err(system("open /dev/net/tun"))?;
        tun::attach(file.as_fd(), &options.name, flags).map_err(system("make a queue"))?;
        tun::set_vnet_header_size(file.as_fd(), vnet::LEN as i32).map_err(system("set the header size"))?;
        files.push(Arc::new(file));
    }
    if let Some(first) = files.first() {
        set_offload(first, options.gso).map_err(system("set offloads"))?;
        if options.persist || existed {
            tun::set_persist(first.as_fd(), options.persist).map_err(system("make it persistent"))?;
        }
    }
    Ok(files)
}

/// Says what the kernel may leave to us. UDP segmentation is newer than the rest.
fn set_offload(file: &OwnedFd, gso: bool) -> io::Result<()> {
    let tcp = tun::F_CSUM | tun::F_TSO4 | tun::F_TSO6;
    match (gso, tun::set_offload(file.as_fd(), if gso { tcp | tun::F_USO4 | tun::F_USO6 } else { 0 })) {
        (true, Err(error)) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            tun::set_offload(file.as_fd(), tcp)
        }
        (_, result) => result,
    }
}

/// Holds the queues' files, so that the device stays while a worker hands them over.
struct TapControl {
    netns: Netns,
    name: String,
    files: Vec<Arc<OwnedFd>>,
    threads: OutputThreads,
}

impl PortControl for TapControl {
    fn lost(&self) -> Result<u64, PortError> {
        Ok(link::get(&self.netns, &self.name)?.map_or(0, |info| info.tx_dropped))
    }

    fn hold(mut self: Box<Self>) -> Option<Held> {
        self.threads.wait();
        let file = self.files.pop()?;
        // Where the device is gone, there is nothing to hold.
        tun::detach(file.as_fd()).ok().map(|()| Held { _queue: file })
    }

    fn remove(self: Box<Self>) -> Result<(), PortError> {
        self.threads.wait();
        match link::delete(&self.netns, &self.name) {
            // A namespace that is gone has taken the device with it.
            Err(PortError::Netns(crate::NetnsError::Missing { .. })) => Ok(()),
            result => result,
        }
    }
}
