//! What the control plane asks of the packet engine.
//!
//! Two traits, because changing and looking go different ways: [`Dataplane`] has one owner, the control thread, and is
//! changed by [`Operation`]s in an order that always makes sense; [`Inspect`] is shared by everybody who shows
//! counters and tables, and never waits for a change.

mod inspect;
mod kept;
mod operation;

pub use inspect::{
    Capture, EngineInfo, ExporterFigures, FibQuery, FibSelection, Inspect, InspectError, NodeEvents,
    SessionEvents,
};
pub use kept::KeptSession;
pub use operation::{Change, Dataplane, Operation, Rejection, RouteChange};
