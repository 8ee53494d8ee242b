//! Finishes, before the output of a port that can't, what the sender has left to the device.

use super::segment::{Problem, segment};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::checksum::{self, Unfinished};
use graph::node::{Feature, NodeContext, NodeKind};
use graph::nodes::INTERFACE_OUTPUT;
use graph::publish::Key;
use graph::{Ctx, Frame, GONE, Node, NodeSpec};
use memory::packet::{Gso, Packets, SlotId};

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "offload",
    help: "Cuts super-frames and finishes checksums for ports that can't.",
    kind: NodeKind::Internal,
    edges: &["drop"],
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    features: &[Feature { arc: INTERFACE_OUTPUT, runs_before: &[], runs_after: &[] }],
    make,
    ..NodeSpec::EMPTY
};

graph::drops! {
    /// Why an unfinished packet can't be finished.
    pub enum Drop {
        /// The headers of a packet with offload aren't what its offload says.
        Malformed => "malformed", Invalid,
        /// The headers of a packet with offload are longer than a slot's head.
        HeadersTooLong => "headers-too-long", Loss,
        /// A super-frame asks to be cut smaller than any sender does.
        TooManySegments => "too-many-segments", Invalid,
        /// Too few packet slots are free to cut a super-frame.
        NoSlot => "no-slot", Loss,
    }
}

graph::counters! {
    /// What it did.
    enum Counter {
        /// Super-frames cut.
        SuperFrames => "super-frames",
        /// Segments made of them.
        Segments => "segments",
        /// Checksums finished of packets that were no super-frames.
        Checksums => "checksums",
    }
}

impl From<Problem> for Drop {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Malformed => Self::Malformed,
            Problem::HeadersTooLong => Self::HeadersTooLong,
            Problem::TooMany { .. } => Self::TooManySegments,
            Problem::NoSlot => Self::NoSlot,
        }
    }
}

impl From<Unfinished> for Drop {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::Malformed => Self::Malformed,
            Unfinished::HeadersTooLong => Self::HeadersTooLong,
            Unfinished::NoRoom => Self::NoSlot,
        }
    }
}

struct OffloadNode {
    place: ArcPlace,
    arcs: Key<Arcs>,
    segments: Vec<SlotId>,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(OffloadNode { place: cx.arc(INTERFACE_OUTPUT), arcs: cx.table(), segments: Vec::new() })
}

impl Node for OffloadNode {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let unfinished = |packets: &Packets, slot: SlotId| packets.meta(slot).offload.checksum_needed;
        if frame.slots.iter().all(|slot| !unfinished(ctx.packets, *slot)) {
            let arcs = ctx.tables.get(self.arcs);
            frame.each(|slot| onward(self.place, arcs, ctx.packets, slot));
            return;
        }
        // Everything is emitted, in order, so that segments don't change places with packets of the same flow.
        for (slot, next) in frame.slots.iter().zip(frame.next.iter_mut()) {
            let gso = ctx.packets.meta(*slot).offload.gso != Gso::None;
            self.segments.clear();
            let done = if gso {
                segment(ctx.packets, *slot, &mut self.segments).map_err(Drop::from)
            } else {
                self.segments.push(*slot);
                if unfinished(ctx.packets, *slot) {
                    ctx.count(Counter::Checksums, 1);
                    checksum::complete(ctx.packets, *slot).map_err(Drop::from)
                } else {
                    Ok(())
                }
            };
            if let Err(reason) = done {
                *next = ctx.drop(*slot, reason);
                continue;
            }
            if gso {
                ctx.count(Counter::SuperFrames, 1);
                ctx.count(Counter::Segments, self.segments.len() as u64);
            }
            let arcs = ctx.tables.get(self.arcs);
            for piece in &self.segments {
                let edge = onward(self.place, arcs, ctx.packets, *piece);
                ctx.emit(edge, *piece);
            }
            *next = GONE;
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        match meta.offload.gso {
            Gso::None => write!(out, "length {}, nothing left to do", meta.len()),
            gso => write!(
                out,
                "length {} cut into {gso:?} segments of {} bytes",
                meta.len(),
                meta.offload.gso_size
            ),
        }
    }
}

fn onward(place: ArcPlace, arcs: &Arcs, packets: &mut Packets, slot: SlotId) -> u8 {
    let meta = packets.meta_mut(slot);
    let interface = meta.tx_if;
    place.next(arcs, interface, meta)
}
