//! Which headers go together.

use super::Layer;
use crate::stateless::template::HEADERS;

/// Why a stack or a size of frame can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// Nothing in it.
    #[error("`stack` is empty: begin with ethernet (or with ipv4 or ipv6 on interfaces in ip mode)")]
    Empty,
    /// It begins with something else.
    #[error(
        "`stack` begins with {0}: it must begin with ethernet (or with ipv4 or ipv6 on interfaces in ip mode)"
    )]
    Start(&'static str),
    /// Headers that don't go together.
    #[error("`stack` has {next} after {layer}: what may follow {layer} is {may}")]
    Order {
        /// The header before.
        layer: &'static str,
        /// The one after it.
        next: &'static str,
        /// What might stand there.
        may: &'static str,
    },
    /// More headers than one may have.
    #[error("`stack` has {0} bytes of headers: at most {max} are possible", max = HEADERS)]
    TooLong(usize),
    /// A field beyond its bits.
    #[error("{layer}.{field} can be {value}, which is more than {max}")]
    Range {
        /// Header.
        layer: &'static str,
        /// Its field.
        field: &'static str,
        /// Greatest value asked for.
        value: u64,
        /// Greatest value possible.
        max: u64,
    },
    /// No room.
    #[error(
        "frames of {len} bytes (without FCS) are too short: {headers} bytes of headers{signature} take {need}"
    )]
    TooShort {
        /// Length of frames asked for.
        len: usize,
        /// Bytes of headers.
        headers: usize,
        /// What else takes room.
        signature: &'static str,
        /// Least length.
        need: usize,
    },
}

/// Looks whether the headers go together.
///
/// # Errors
/// [`StackError`].
pub fn check(stack: &[Layer]) -> Result<(), StackError> {
    let first = stack.first().ok_or(StackError::Empty)?;
    if !matches!(first, Layer::Ethernet(_) | Layer::Ipv4(_) | Layer::Ipv6(_)) {
        return Err(StackError::Start(first.name()));
    }
    for (at, layer) in stack.iter().enumerate() {
        let next = stack.get(at + 1);
        layer.takes(next).map_err(|may| StackError::Order {
            layer: layer.name(),
            next: next.map_or("the payload", Layer::name),
            may,
        })?;
    }
    let len = stack.iter().map(Layer::len).sum();
    if len > HEADERS { Err(StackError::TooLong(len)) } else { Ok(()) }
}
