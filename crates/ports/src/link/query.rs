//! Reading a device.

use super::netlink::{self, to_io};
use crate::PortError;
use crate::netns::Netns;
use crate::port::LinkState;
use rtnetlink::Handle;
use rtnetlink::packet_core::Nla;
use rtnetlink::packet_route::link::{
    InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo as Info, LinkLayerType, LinkMessage,
};
use std::io;
use tokio_stream::StreamExt;
use wire::MacAddr;

/// A device as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Its number in its network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// It carries Ethernet frames.
    pub ethernet: bool,
    /// Its Ethernet address, where it has one.
    pub mac: Option<MacAddr>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// It is set up.
    pub up: bool,
    /// It has a carrier: something is connected.
    pub carrier: bool,
    /// Packets it should have sent and didn't. Of a tap: those that waited for us too long.
    pub tx_dropped: u64,
    /// What is particular to tun and tap devices.
    pub tun: Option<TunInfo>,
}

/// What is particular to tun and tap devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunInfo {
    /// Ethernet frames (tap), not IP packets (tun).
    pub tap: bool,
    /// It can have several queues.
    pub multi_queue: bool,
    /// It stays when its last queue is closed.
    pub persist: bool,
    /// Queues that are open now.
    pub queues: u32,
}

/// The device of that name, or `None` where there is none.
///
/// # Errors
/// [`PortError`] where the namespace can't be entered or the kernel can't be asked.
pub fn get(netns: &Netns, name: &str) -> Result<Option<LinkInfo>, PortError> {
    netlink::with(netns, async |handle| {
        let info = find(&handle, name).await;
        info.map_err(|error| {
            PortError::system(format!("device {name} in network namespace {netns}"), "look it up", error)
        })
    })
}

pub(super) async fn find(handle: &Handle, name: &str) -> io::Result<Option<LinkInfo>> {
    let mut links = std::pin::pin!(handle.link().get().match_name(name).execute());
    match links.next().await {
        None => Ok(None),
        Some(Ok(message)) => Ok(Some(read(&message))),
        Some(Err(error)) => match to_io(error) {
            error if is_missing(&error) => Ok(None),
            error => Err(error),
        },
    }
}

/// Whether the kernel says that there is no such device.
pub(super) fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

impl LinkInfo {
    /// Whether packets can pass.
    #[must_use]
    pub fn state(&self) -> LinkState {
        if self.up && self.carrier { LinkState::Up } else { LinkState::Down }
    }
}

pub(super) fn read(message: &LinkMessage) -> LinkInfo {
    let flags = message.header.flags;
    let mut info = LinkInfo {
        index: message.header.index,
        ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp),
        ..LinkInfo::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => info.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => info.mtu = *mtu,
            LinkAttribute::Address(bytes) => {
                info.mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(MacAddr)
            }
            LinkAttribute::Stats64(stats) => info.tx_dropped = stats.tx_dropped,
            LinkAttribute::LinkInfo(list) => {
                info.tun = list.iter().find_map(|item| match item {
                    Info::Data(InfoData::Tun(attributes)) => Some(read_tun(attributes)),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    info
}

/// `IFLA_TUN_*` of `include/uapi/linux/if_link.h`, which the library hands on unread.
fn read_tun(attributes: &[InfoTun]) -> TunInfo {
    const TYPE: u16 = 3;
    const PERSIST: u16 = 6;
    const MULTI_QUEUE: u16 = 7;
    const NUM_QUEUES: u16 = 8;
    let mut info = TunInfo::default();
    for attribute in attributes {
        let mut bytes = [0; 4];
        let len = attribute.value_len();
        if len > bytes.len() {
            continue;
        }
        attribute.emit_value(&mut bytes[..len]);
        let (byte, word) = (bytes[0], u32::from_ne_bytes(bytes));
        match attribute.kind() {
            TYPE => info.tap = u16::from(byte) == crate::sys::tun::TAP,
            PERSIST => info.persist = byte != 0,
            MULTI_QUEUE => info.multi_queue = byte != 0,
            NUM_QUEUES => info.queues = word,
            _ => {}
        }
    }
    info
}
