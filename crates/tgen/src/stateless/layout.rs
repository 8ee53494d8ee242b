//! Where a stack's fields and checksums lie, and what each field weighs in each checksum.

use super::modifier::Modifier;
use super::setting::{Number, Setting};
use super::signature;
use super::stack::{self, Layer, StackError};
use super::template::{Field, Sum};
use core::net::Ipv6Addr;
use core::ops::Range;
use wire::ipv4::Ipv4Header;
use wire::{Header, IpProtocol, Tci};

/// What all frames of a stack have in common, whatever their length.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) stack: Vec<Layer>,
    /// Bytes of all headers.
    pub headers: usize,
    /// Fields that change.
    pub fields: Vec<Field>,
    /// Checksums that are looked after, from the outside in.
    pub sums: Vec<Sum>,
}

impl Layout {
    /// The layout of a stack.
    ///
    /// # Errors
    /// [`StackError`] when the headers don't go together or a field is given more than it can hold.
    pub fn new(stack: &[Layer]) -> Result<Self, StackError> {
        stack::check(stack)?;
        let mut layout = Self { stack: stack.to_vec(), headers: 0, fields: Vec::new(), sums: Vec::new() };
        let mut ip = None;
        for (at, layer) in stack.iter().enumerate() {
            layout.fields_of(layer)?;
            layout.sums_of(layer, stack.get(at + 1), &mut ip);
            layout.headers += layer.len();
        }
        let Self { fields, sums, .. } = &mut layout;
        for field in fields {
            field.weights = weights(field.offset, sums);
        }
        Ok(layout)
    }

    fn fields_of(&mut self, layer: &Layer) -> Result<(), StackError> {
        let mut places = Places { layer: layer.name(), base: self.headers, fields: &mut self.fields };
        match layer {
            Layer::Ethernet(ethernet) => {
                places.add("dst", &ethernet.dst, 0, 6)?;
                places.add("src", &ethernet.src, 6, 6)
            }
            Layer::Vlan(vlan) => {
                let rest = u64::from(Tci::new(vlan.priority, false, 0).get());
                places.bits("id", &vlan.id, 0, 2, rest, 0, 0xfff)?;
                places.check("priority", vlan.priority.into(), 7)
            }
            Layer::Ipv4(ip) => {
                places.add("tos", &ip.tos, 1, 1)?;
                places.add("id", &ip.id, 4, 2)?;
                places.add("ttl", &ip.ttl, 8, 1)?;
                places.add("src", &ip.src, 12, 4)?;
                places.add("dst", &ip.dst, 16, 4)
            }
            Layer::Ipv6(ip) => {
                let rest = 6 << 28 | u64::from(ip.traffic_class) << 20;
                places.bits("flow_label", &ip.flow_label, 0, 4, rest, 0, 0xf_ffff)?;
                places.add("hop_limit", &ip.hop_limit, 7, 1)?;
                places.halves("src", &ip.src, 8)?;
                places.halves("dst", &ip.dst, 24)
            }
            Layer::Udp(udp) => {
                places.add("src", &udp.src, 0, 2)?;
                places.add("dst", &udp.dst, 2, 2)
            }
            Layer::Tcp(tcp) => {
                places.add("src", &tcp.src, 0, 2)?;
                places.add("dst", &tcp.dst, 2, 2)?;
                places.add("seq", &tcp.seq, 4, 4)?;
                places.add("ack", &tcp.ack, 8, 4)?;
                places.add("flags", &tcp.flags, 13, 1)?;
                places.add("window", &tcp.window, 14, 2)
            }
            Layer::Icmp(echo) | Layer::Icmpv6(echo) => {
                places.add("id", &echo.id, 4, 2)?;
                places.add("sequence", &echo.sequence, 6, 2)
            }
            Layer::Vxlan(vxlan) => places.bits("vni", &vxlan.vni, 4, 4, 0, 8, 0xff_ffff),
        }
    }

    /// The checksum of a header, if it has one. `ip` is where the addresses of the IP header before it lie.
    fn sums_of(&mut self, layer: &Layer, next: Option<&Layer>, ip: &mut Option<Range<usize>>) {
        let base = self.headers;
        let mut add = |at, covers: Range<usize>, pseudo: Option<(Range<usize>, IpProtocol)>| {
            let udp = matches!(layer, Layer::Udp(_));
            self.sums.push(Sum { offset: base + at, udp, covers, pseudo });
        };
        let to_end = base..usize::MAX;
        let pseudo = |protocol| ip.clone().map(|addresses| (addresses, protocol));
        match layer {
            Layer::Ipv4(_) => {
                add(10, base..base + Ipv4Header::LEN, None);
                *ip = Some(base + 12..base + 20);
            }
            Layer::Ipv6(_) => *ip = Some(base + 8..base + 40),
            // RFC 7348: the outer checksum should be 0; over IPv6 it is needed all the same (RFC 8200).
            Layer::Udp(_)
                if matches!(next, Some(Layer::Vxlan(_))) && ip.as_ref().is_some_and(|ip| ip.len() == 8) => {}
            Layer::Udp(_) => add(6, to_end, pseudo(IpProtocol::UDP)),
            Layer::Tcp(_) => add(16, to_end, pseudo(IpProtocol::TCP)),
            Layer::Icmp(_) => add(2, to_end, None),
            Layer::Icmpv6(_) => add(2, to_end, pseudo(IpProtocol::ICMPV6)),
            Layer::Ethernet(_) | Layer::Vlan(_) | Layer::Vxlan(_) => {}
        }
    }

    /// Shortest frame with this signature, in bytes.
    #[must_use]
    pub const fn least(&self, signature: Option<bool>) -> usize {
        self.headers
            + match signature {
                None => 0,
                Some(false) => signature::LEN,
                Some(true) => signature::STAMPED_LEN,
            }
    }
}

/// How often a change at `offset` counts in each sum. A checksum further in changes by the negative of what changes in its
/// own sum, and that counts, too, where an outer sum covers it.
fn weights(offset: usize, sums: &[Sum]) -> Vec<i8> {
    let mut weights = vec![0i8; sums.len()];
    for (n, sum) in sums.iter().enumerate().rev() {
        let mut weight = i8::from(sum.covers.contains(&offset));
        weight += i8::from(sum.pseudo.as_ref().is_some_and(|(addresses, _)| addresses.contains(&offset)));
        for (inner, weight_inside) in sums.iter().zip(&weights).skip(n + 1) {
            if sum.covers.contains(&inner.offset) {
                weight -= weight_inside;
            }
        }
        if let Some(place) = weights.get_mut(n) {
            *place = weight;
        }
    }
    weights
}

struct Places<'a> {
    layer: &'static str,
    base: usize,
    fields: &'a mut Vec<Field>,
}

impl Places<'_> {
    fn add<T: Number>(
        &mut self,
        name: &'static str,
        setting: &Setting<T>,
        at: usize,
        width: usize,
    ) -> Result<(), StackError> {
        let max = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
        self.bits(name, setting, at, width, 0, 0, max)
    }

    #[expect(clippy::too_many_arguments, reason = "a row of a table")]
    fn bits<T: Number>(
        &mut self,
        name: &'static str,
        setting: &Setting<T>,
        at: usize,
        width: usize,
        rest: u64,
        shift: u32,
        max: u64,
    ) -> Result<(), StackError> {
        self.check(name, setting.value.bits(), max)?;
        if let Some(modifier) = &setting.modifier {
            self.check(name, modifier.max, max)?;
            self.push(modifier, at, width, rest, shift);
        }
        Ok(())
    }

    /// An IPv6 address: each half is a field.
    fn halves(
        &mut self,
        name: &'static str,
        setting: &Setting<Ipv6Addr>,
        at: usize,
    ) -> Result<(), StackError> {
        if let Some(upper) = &setting.upper {
            self.push(upper, at, 8, 0, 0);
        }
        self.add(name, setting, at + 8, 8)
    }

    fn push(&mut self, modifier: &Modifier, at: usize, width: usize, rest: u64, shift: u32) {
        let (offset, modifier) = (self.base + at, modifier.clone());
        self.fields.push(Field { offset, width, rest, shift, modifier, weights: Vec::new() });
    }

    fn check(&self, field: &'static str, value: u64, max: u64) -> Result<(), StackError> {
        let layer = self.layer;
        if value > max { Err(StackError::Range { layer, field, value, max }) } else { Ok(()) }
    }
}
