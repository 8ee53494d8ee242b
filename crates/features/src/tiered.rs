//! Vector loops compiled for the graph's instruction-set tier.

use graph::simd::{Simd, TierTask};
use graph::{Ctx, Frame};

/// A node whose loop over the packets is plain code that the compiler does better with a newer instruction set: bit
/// fields, byte swaps, wide copies. [`run`] compiles it once per tier.
pub trait Tiered {
    /// The body of [`graph::Node::process`]. Mark it `#[inline(always)]`: what isn't inlined is compiled for the
    /// baseline only.
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>);
}

/// Runs the node's loop on the tier that the graph was built for.
#[inline]
pub fn run<N: Tiered>(node: &mut N, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
    ctx.tier.dispatch(Task { node, ctx, frame });
}

struct Task<'t, 'c, 'f, N> {
    node: &'t mut N,
    ctx: &'t mut Ctx<'c>,
    frame: &'t mut Frame<'f>,
}

impl<N: Tiered> TierTask for Task<'_, '_, '_, N> {
    type Output = ();

    fn run<S: Simd>(self, s: S) {
        let Self { node, ctx, frame } = self;
        // Without the attribute a large loop would stay a function of its own, compiled for the baseline.
        s.run(
            #[inline(always)]
            || node.vector(s, ctx, frame),
        );
    }
}
