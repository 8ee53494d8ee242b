//! Why a change is refused.

use super::route::{Prefix, Via};
use core::net::IpAddr;
use graph::IfIndex;
use tables::fib::FibError;

/// A change that was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardingError {
    /// The tables lack the parts that forwarding writes.
    #[error("the tables lack parts of forwarding: make them with features::schema()")]
    Schema,
    /// The VRF doesn't exist.
    #[error("VRF {vrf} doesn't exist: create it first")]
    NoVrf {
        /// Its number.
        vrf: u16,
    },
    /// The VRF exists already.
    #[error("VRF {vrf} exists already: delete it first, or use another number")]
    VrfExists {
        /// Its number.
        vrf: u16,
    },
    /// VRF 0 is always there.
    #[error("VRF 0, `default`, can't be deleted")]
    DefaultVrf,
    /// Interfaces still belong to the VRF.
    #[error("VRF {vrf} is used by interface {interface}: move the interface to another VRF first")]
    VrfInUse {
        /// Its number.
        vrf: u16,
        /// The first interface that uses it.
        interface: IfIndex,
    },
    /// Interface 0 is no interface.
    #[error("interface 0 is reserved: number interfaces from 1")]
    InterfaceZero,
    /// The interface doesn't exist.
    #[error("interface {interface} doesn't exist: create it first")]
    NoInterface {
        /// Its index.
        interface: IfIndex,
    },
    /// An interface address has a prefix length beyond its address.
    #[error(
        "address {address}/{prefix_len} of interface {interface}: the prefix length is beyond the address"
    )]
    BadAddress {
        /// The interface.
        interface: IfIndex,
        /// The address.
        address: IpAddr,
        /// The length given.
        prefix_len: u8,
    },
    /// A port split can't be had.
    #[error("route {prefix}: {reason}")]
    PortSplit {
        /// Its destination.
        prefix: Prefix,
        /// Why not.
        reason: &'static str,
    },
    /// A route without next hops.
    #[error("route {prefix} has no next hop: give one, or `blackhole`")]
    NoPath {
        /// Its destination.
        prefix: Prefix,
    },
    /// A next hop of the other IP version.
    #[error("route {prefix} {via}: the next hop must be of the same IP version")]
    Family {
        /// The route's destination.
        prefix: Prefix,
        /// The next hop.
        via: Via,
    },
    /// An action beside next hops.
    #[error("route {prefix}: `{via}` must be the only next hop")]
    NotAlone {
        /// The route's destination.
        prefix: Prefix,
        /// The action.
        via: Via,
    },
    /// A next hop that gets no traffic, or more than can be told apart.
    #[error("route {prefix} {via}: the weight must be from 1 to 65535")]
    Weight {
        /// The route's destination.
        prefix: Prefix,
        /// The next hop.
        via: Via,
    },
    /// More next hops than a group has room for.
    #[error("route {prefix} has {paths} next hops: at most {max} are possible")]
    TooManyPaths {
        /// The route's destination.
        prefix: Prefix,
        /// How many it has.
        paths: usize,
        /// How many it may have.
        max: usize,
    },
    /// A route into the VRF it is in.
    #[error("route {prefix}: it leads into VRF {vrf}, where it is already")]
    SameVrf {
        /// The route's destination.
        prefix: Prefix,
        /// The VRF.
        vrf: u16,
    },
    /// All next-hop ids are taken.
    #[error("all {max} next hops are in use: remove routes with next hops of their own")]
    TooManyNextHops {
        /// How many there can be.
        max: u32,
    },
    /// A table refuses.
    #[error("table of VRF {vrf}: {source}")]
    Table {
        /// The VRF.
        vrf: u16,
        /// What it says.
        source: FibError,
    },
}
