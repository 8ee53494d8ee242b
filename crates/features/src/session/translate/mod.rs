//! Sessions whose packets look otherwise on their far side: what `nat` and `balance` have in common.
//!
//! * [`Translation`]: what is replaced by what, and what that does to checksums; `address`: what differs between IP versions; `ordinary`: the way of nearly
//!   all packets; `edit`, `sctp`: changing words of a packet with its checksums.
//! * [`Translations`]: a worker's, beside its sessions; [`packet`]: what is done with a packet of one.
//! * [`Sided`]: packets as their session's own key has them, whoever has translated them.
//! * [`OwnErrors`]: ICMP errors that are made here about packets that were translated before.
//!
//! The way back is a second key of the session in the same table ([`tables::session::SessionTable::add_alias`]): what is in use is what is
//! found.

mod address;
mod edit;
mod explain;
mod ordinary;
mod own;
mod own_form;
mod packet;
mod sctp;
mod translation;
mod translations;

pub(super) use address::{Address, Address6, End};
pub(super) use explain::explain;
pub(crate) use own::OwnErrors;
pub(super) use own_form::Sided;
pub(super) use packet::{Told, fragment, packet};
use translation::Unfit;
pub(super) use translation::{NOBODY, Translation};
pub(super) use translations::Translations;
