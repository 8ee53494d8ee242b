//! What a tap is to be.

use crate::PortError;
use crate::link::LinkOptions;
use crate::netns::Netns;
use crate::port::LinkLayer;
use crate::sys::tun::NAME_MAX;

/// What a device carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TapMode {
    /// Ethernet frames.
    #[default]
    Tap,
    /// IP packets.
    Tun,
}

impl TapMode {
    /// What packets begin with.
    #[must_use]
    pub const fn link(self) -> LinkLayer {
        match self {
            Self::Tap => LinkLayer::Ethernet,
            Self::Tun => LinkLayer::Ip,
        }
    }

    /// Lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Tun => "tun",
        }
    }
}

/// Most queues a device can have (`MAX_TAP_QUEUES` of the kernel).
pub const MAX_QUEUES: u16 = 256;
/// Least and largest MTU of a device, in bytes.
pub const MTU: core::ops::RangeInclusive<u32> = 68..=65521;

/// What a tap or tun device is to be.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Network namespace it lives in.
    pub netns: Netns,
    /// Its name there, 1 to 15 bytes.
    pub name: String,
    /// Frames or packets.
    pub mode: TapMode,
    /// Receive queues, 1 to 256: flows are spread over them by the kernel.
    pub rx_queues: u16,
    /// Transmit queues, one for each worker, at least 1. Those beyond the receive queues share a queue's file and thread.
    pub tx_queues: u16,
    /// Take super-frames and unfinished checksums from the kernel. (It always takes ours.)
    pub gso: bool,
    /// The device stays when this process ends.
    pub persist: bool,
    /// The kernel's side.
    pub host: LinkOptions,
    /// What the kernel's side was given before, when a persistent device is taken over: addresses and routes that are no
    /// more in `host` are taken away.
    pub former: LinkOptions,
}

impl TapOptions {
    /// A tap with one queue pair and offloads, that ends with this process.
    #[must_use]
    pub fn new(netns: Netns, name: impl Into<String>) -> Self {
        Self {
            netns,
            name: name.into(),
            mode: TapMode::Tap,
            rx_queues: 1,
            tx_queues: 1,
            gso: true,
            persist: false,
            host: LinkOptions::default(),
            former: LinkOptions::default(),
        }
    }

    /// The device, for people.
    pub(super) fn port(&self) -> String {
        format!("{} {} in network namespace {}", self.mode.name(), self.name, self.netns)
    }

    pub(super) fn check(&self) -> Result<(), PortError> {
        let wrong = |field, problem: String| PortError::Option { port: self.port(), field, problem };
        check_name(&self.name).map_err(|problem| wrong("name", problem.into()))?;
        if !(1..=MAX_QUEUES).contains(&self.rx_queues) {
            return Err(wrong("rx_queues", format!("is {}: it can be 1 to {MAX_QUEUES}", self.rx_queues)));
        }
        if self.tx_queues == 0 {
            return Err(wrong("tx_queues", "is 0: at least 1 is needed".into()));
        }
        if let Some(mtu) = self.host.mtu.filter(|mtu| !MTU.contains(mtu)) {
            let (least, most) = (MTU.start(), MTU.end());
            return Err(wrong("mtu", format!("is {mtu}: it can be {least} to {most}")));
        }
        match self.host.mac {
            Some(_) if self.mode == TapMode::Tun => {
                Err(wrong("mac", "is set: a tun device has no Ethernet address".into()))
            }
            Some(mac) if !mac.is_unicast() => {
                Err(wrong("mac", format!("is {mac}: it must be the address of one station, not a group")))
            }
            _ => Ok(()),
        }
    }
}

/// What the kernel demands of a device's name (`dev_valid_name`), and that it is no pattern (`tap%d`).
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let bad = |byte: u8| byte.is_ascii_whitespace() || byte == 0 || matches!(byte, b'/' | b':' | b'%');
    match name {
        "" => Err("is empty"),
        "." | ".." => Err("can't be . or .."),
        name if name.len() > NAME_MAX => Err("is longer than 15 bytes"),
        name if name.bytes().any(bad) => Err("contains a blank or one of / : %"),
        _ => Ok(()),
    }
}
