//! Tunnels: VXLAN and Geneve.

use std::fmt;
use std::net::IpAddr;

use api::v1::{Geneve, GeneveMode, Vxlan};

use crate::model::{Flaw, Name, fields};

/// Network identifiers have 24 bits.
const MAX_VNI: u32 = (1 << 24) - 1;
const DEFAULT_TTL: u32 = 64;
/// MTU that links have unless somebody says otherwise.
const LINK_MTU: u32 = 1500;

/// What stands between UDP and what is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelFormat {
    /// RFC 7348: Ethernet frames.
    Vxlan,
    /// RFC 8926: Ethernet frames or IP packets.
    Geneve(GeneveMode),
}

/// A tunnel; see [`Vxlan`] and [`Geneve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSpec {
    /// Its headers, and what is carried.
    pub format: TunnelFormat,
    /// Our end.
    pub local: IpAddr,
    /// The other end, of the same family.
    pub remote: IpAddr,
    /// Network identifier, 24 bits.
    pub vni: u32,
    /// UDP port of both ends.
    pub port: u16,
    /// VRF that leads to the other end.
    pub underlay_vrf: Name,
    /// Time to live of outer headers.
    pub ttl: u8,
    /// DSCP of outer headers; `None`: that of the packet inside.
    pub dscp: Option<u8>,
    /// Whether UDP checksums are sent.
    pub udp_checksum: bool,
}

/// `vni 100, 10.0.0.1 to 10.0.0.2 port 4789`.
impl fmt::Display for TunnelSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "vni {}, {} to {} port {}", self.vni, self.local, self.remote, self.port)
    }
}

impl TunnelSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn vxlan(vxlan: &Vxlan) -> Result<Self, Flaw> {
        Self::parse(TunnelFormat::Vxlan, vxlan)
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn geneve(geneve: &Geneve) -> Result<Self, Flaw> {
        let mode = fields::choice("mode", geneve.mode, GeneveMode::Ethernet)?;
        let alike = Vxlan {
            local: geneve.local.clone(),
            remote: geneve.remote.clone(),
            vni: geneve.vni,
            port: geneve.port,
            underlay_vrf: geneve.underlay_vrf.clone(),
            ttl: geneve.ttl,
            dscp: geneve.dscp,
            copy_dscp: geneve.copy_dscp,
            udp_checksum: geneve.udp_checksum,
        };
        Self::parse(TunnelFormat::Geneve(mode), &alike)
    }

    fn parse(format: TunnelFormat, tunnel: &Vxlan) -> Result<Self, Flaw> {
        let (local, remote) = (end("local", &tunnel.local)?, end("remote", &tunnel.remote)?);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(Flaw::new("remote", format!("{remote} and local {local} are of two families"))
                .remedy("take two IPv4 or two IPv6 addresses"));
        }
        if local == remote {
            return Err(Flaw::new("remote", "is the local end too").remedy("name the other end"));
        }
        if tunnel.vni > MAX_VNI {
            return Err(Flaw::new("vni", format!("{} is no network identifier", tunnel.vni))
                .remedy(format!("take 0 to {MAX_VNI}")));
        }
        if tunnel.copy_dscp && tunnel.dscp != 0 {
            return Err(Flaw::new("dscp", "contradicts copy_dscp").remedy("leave one of the two out"));
        }
        let dscp = fields::number("dscp", tunnel.dscp, 0..=63, 0)? as u8;
        let port = fields::number("port", tunnel.port, 1..=65_535, default_port(format).into())? as u16;
        Ok(Self {
            format,
            local,
            remote,
            vni: tunnel.vni,
            port,
            underlay_vrf: fields::vrf("underlay_vrf", &tunnel.underlay_vrf)?,
            ttl: fields::number("ttl", tunnel.ttl, 1..=255, DEFAULT_TTL)? as u8,
            dscp: (!tunnel.copy_dscp).then_some(dscp),
            udp_checksum: tunnel.udp_checksum.unwrap_or(local.is_ipv6()),
        })
    }

    /// The canonical form of a VXLAN tunnel.
    pub fn to_vxlan(&self) -> Vxlan {
        Vxlan {
            local: self.local.to_string(),
            remote: self.remote.to_string(),
            vni: self.vni,
            port: if self.port == default_port(self.format) { 0 } else { self.port.into() },
            underlay_vrf: match &self.underlay_vrf {
                vrf if *vrf == Name::default_vrf() => String::new(),
                vrf => vrf.to_string(),
            },
            ttl: if u32::from(self.ttl) == DEFAULT_TTL { 0 } else { self.ttl.into() },
            dscp: self.dscp.unwrap_or_default().into(),
            copy_dscp: self.dscp.is_none(),
            udp_checksum: (self.udp_checksum != self.local.is_ipv6()).then_some(self.udp_checksum),
        }
    }

    /// The canonical form of a Geneve tunnel.
    pub fn to_geneve(&self) -> Geneve {
        let alike = self.to_vxlan();
        Geneve {
            local: alike.local,
            remote: alike.remote,
            vni: alike.vni,
            port: alike.port,
            underlay_vrf: alike.underlay_vrf,
            ttl: alike.ttl,
            dscp: alike.dscp,
            copy_dscp: alike.copy_dscp,
            udp_checksum: alike.udp_checksum,
            mode: match self.format {
                TunnelFormat::Geneve(GeneveMode::Ip) => GeneveMode::Ip.into(),
                _ => GeneveMode::Unspecified.into(),
            },
        }
    }

    /// The field of the interface that it stands in.
    pub fn field(&self) -> &'static str {
        match self.format {
            TunnelFormat::Vxlan => "vxlan",
            TunnelFormat::Geneve(_) => "geneve",
        }
    }

    /// Whether it carries Ethernet frames.
    pub fn is_ethernet(&self) -> bool {
        self.format != TunnelFormat::Geneve(GeneveMode::Ip)
    }

    /// Bytes that an IP packet grows by on its way through the tunnel: IP, UDP, the tunnel's header, and, where there is one, the
    /// header of its frame.
    pub fn overhead(&self) -> u32 {
        let ip = if self.local.is_ipv4() { 20 } else { 40 };
        ip + 8 + 8 + if self.is_ethernet() { 14 } else { 0 }
    }

    /// The MTU of its interface, where nobody says another.
    pub fn default_mtu(&self) -> u32 {
        LINK_MTU - self.overhead()
    }
}

const fn default_port(format: TunnelFormat) -> u16 {
    match format {
        TunnelFormat::Vxlan => 4789,
        TunnelFormat::Geneve(_) => 6081,
    }
}

/// One end: a station's address.
fn end(field: &str, text: &str) -> Result<IpAddr, Flaw> {
    let address = fields::address(field, text)?;
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_multicast() || address.is_unspecified() || address.is_loopback() || broadcast || link_local
    {
        return Err(Flaw::new(field, format!("{address} can't be the end of a tunnel"))
            .remedy("take the address of one station; of several, a tunnel to each, in one bridge"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Vxlan {
        Vxlan { local: "10.0.0.1".into(), remote: "10.0.0.2".into(), vni: 100, ..Vxlan::default() }
    }

    #[test]
    fn what_is_not_said_is_as_the_rfcs_say() {
        let vxlan = TunnelSpec::vxlan(&plain()).unwrap();
        assert_eq!((vxlan.port, vxlan.ttl, vxlan.dscp, vxlan.udp_checksum), (4789, 64, Some(0), false));
        assert_eq!((vxlan.overhead(), vxlan.default_mtu()), (50, 1450));
        assert_eq!(vxlan.to_vxlan(), plain());
        let six = Vxlan { local: "fd00::1".into(), remote: "fd00::2".into(), ..plain() };
        let vxlan = TunnelSpec::vxlan(&six).unwrap();
        assert_eq!((vxlan.udp_checksum, vxlan.default_mtu()), (true, 1430));
        assert_eq!(vxlan.to_vxlan(), six);
        let geneve = Geneve {
            local: "10.0.0.1".into(),
            remote: "10.0.0.2".into(),
            mode: GeneveMode::Ip.into(),
            copy_dscp: true,
            udp_checksum: Some(true),
            ttl: 3,
            underlay_vrf: "red".into(),
            ..Geneve::default()
        };
        let spec = TunnelSpec::geneve(&geneve).unwrap();
        assert_eq!((spec.port, spec.default_mtu(), spec.is_ethernet()), (6081, 1464, false));
        assert_eq!(spec.to_geneve(), geneve);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (tunnel, field) in [
            (Vxlan { local: "10.0.0.1/24".into(), ..plain() }, "local"),
            (Vxlan { local: String::new(), ..plain() }, "local"),
            (Vxlan { remote: "239.1.1.1".into(), ..plain() }, "remote"),
            (Vxlan { remote: "fe80::1".into(), ..plain() }, "remote"),
            (Vxlan { remote: "fd00::1".into(), ..plain() }, "remote"),
            (Vxlan { remote: "10.0.0.1".into(), ..plain() }, "remote"),
            (Vxlan { vni: 1 << 24, ..plain() }, "vni"),
            (Vxlan { port: 70_000, ..plain() }, "port"),
            (Vxlan { ttl: 256, ..plain() }, "ttl"),
            (Vxlan { dscp: 64, ..plain() }, "dscp"),
            (Vxlan { dscp: 1, copy_dscp: true, ..plain() }, "dscp"),
        ] {
            assert_eq!(TunnelSpec::vxlan(&tunnel).unwrap_err().field, field, "{tunnel:?}");
        }
    }
}
