//! Where packets end that go no further: counts them by reason and shows them to a capture.

use crate::context::{Ctx, Frame};
use crate::node::{Node, NodeKind, NodeSpec};

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "drop",
    help: "Counts dropped packets by reason.",
    kind: NodeKind::Output,
    make: |_| Box::new(DropNode),
    ..NodeSpec::EMPTY
};

struct DropNode;

impl Node for DropNode {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        for slot in frame.slots {
            ctx.end(*slot);
        }
    }
}
