//! What the trie is measured against: other structures for the same question, in their leanest form: built once, not changeable.

mod direct;
mod dxr;
mod lengths;
mod poptrie;

pub use direct::{Direct16, Direct24};
pub use dxr::Dxr;
pub use lengths::Lengths;
pub use poptrie::Poptrie;

use crate::shapes::Route;

/// A structure.
pub trait Rival<A>: Sized {
    /// What it is called.
    const NAME: &'static str;
    /// `None` where it would take more than 3 GB.
    fn build(routes: &[Route<A>]) -> Option<Self>;
    /// Memory that lookups go through.
    fn bytes(&self) -> usize;
    /// Ids of up to 256 addresses, level by level, as the table under test does it.
    fn lookup_batch(&self, addrs: &[A], out: &mut [u32]);
}

/// Shorter prefixes first, so that each overwrites its range.
fn by_length<A: Copy>(routes: &[Route<A>]) -> Vec<Route<A>> {
    let mut sorted = routes.to_vec();
    sorted.sort_by_key(|&(_, len, _)| len);
    sorted
}
