//! Objects as the daemon works with them: checked, with every default filled in.
//!
//! Each kind has `parse`, which reads what a client sent and says which field is wrong, and `to_api`, which gives
//! the canonical form back: whatever has its default value is left out. `parse(to_api(x)) == x` for all of them.

mod access;
mod acl;
mod acl_rule;
mod address_set;
mod bridge;
mod endpoint;
mod generator;
mod interface;
mod ipv4_span;
mod memif;
mod nat_pool;
mod nat_prefix;
mod neighbor;
mod policer;
mod port;
mod port_split;
mod range;
mod redirect;
mod route;
pub mod slow_path;
mod tap;
mod tenant;
mod tunnel;
mod vip;
mod vlan;
mod vrf;

pub use access::{Access, Account, SocketFile, SocketQuota};
pub use acl::{AclSpec, api_action, api_default};
pub use acl_rule::{api_rule, protocol, protocol_of_sessions, tcp_flags};
pub use address_set::{AddressSetDelta, AddressSetSpec};
pub use bridge::{BridgeSpec, MacTarget, StaticMacSpec};
pub use endpoint::EndpointSpec;
pub use generator::{FlowSpec, GeneratorSpec, PacketSpec};
pub use interface::{FaultSpec, InterfaceSpec, L2};
pub use ipv4_span::Ipv4Span;
pub use memif::{MemifSpec, SocketName};
pub use nat_pool::NatPoolSpec;
pub use neighbor::NeighborSpec;
pub use policer::PolicerSpec;
pub use port::{AfPacketSpec, Claim, PcapSpec, PortSpec};
pub use port_split::SplitSpec;
pub use range::IpRange;
pub use redirect::RedirectSpec;
pub use route::{Hop, NextHopSpec, Paths, RouteSpec};
pub use tap::{HostRouteSpec, TapSpec};
pub use tenant::{ClassSpec, TenantSpec, scope_name};
pub use tunnel::{TunnelFormat, TunnelSpec};
pub use vip::{VipSpec, api_algorithm, api_clients, api_protocol, api_source_nat, api_state};
pub use vlan::VlanSpec;
pub use vrf::VrfSpec;
