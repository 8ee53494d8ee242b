//! What would become of a packet whose session looks otherwise on its far side.

use super::super::explain::Meeting;
use tables::session::{Endpoint, Handle};

/// What a packet of a session that is translated has, and what it is given.
pub(in super::super) struct Replaced {
    /// Both sides beyond: the near one and the far one.
    pub(in super::super) beyond: [Endpoint; 2],
    /// Whether its addresses and ports are those that packets of its side have.
    pub(in super::super) fits: bool,
}

/// Has a packet of a session that is there, and translated, go on as it would. `None` where it isn't translated.
pub(in super::super) fn explain(meeting: &mut Meeting<'_>, session: Handle) -> Option<Replaced> {
    let translations = &meeting.sessions.translations;
    let near_is_high = translations.near_is_high(session)?;
    let beyond = translations.endpoints(session)?;
    let (low, high) = meeting.key.endpoints();
    let ours = if near_is_high { [high, low] } else { [low, high] };
    let initiates = matches!(meeting.direction, super::super::Direction::Forward);
    let leaves = initiates == (meeting.initiator_is_high == near_is_high);
    let (old, new) = if leaves { (ours, beyond) } else { ([beyond[1], beyond[0]], [ours[1], ours[0]]) };
    let fits = meeting.ends == old;
    if fits {
        meeting.ends = new;
    }
    Some(Replaced { beyond, fits })
}
