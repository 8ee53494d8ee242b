//! The packet engine behind [`Dataplane`](crate::dataplane::Dataplane): tables, workers, ports.
//!
//! * [`engine`](self): [`Engine`] owns everything. Changes come from the control thread, events (punted packets, faults,
//!   timers) from a thread of its own, links from that of the memif sockets; they change what workers see, the [`core::Core`],
//!   under one lock, which workers never take. `directory`: what there is, for whoever looks, without that lock.
//! * `operations`: what the control thread asks for, step by step; `compile`: an interface as workers see it.
//! * `life`: interfaces and ports come, change and go; `devices`: what they leave in network namespaces; `passage`: in which
//!   order queues and ways come and go.
//! * `registry`: interfaces by name and index; `port`, `ports_of`: opening ports; `capture`: seeing packets; `watching`: hearing of sessions; `export`: telling collectors of them.
//! * `tenants`, `nat`, `vips`, `acls`: tenants, whose sessions are the workers', what these are seen with outside, who serves them, and which may be.
//! * `memif`: sockets of memif interfaces, and what is known of their links.
//! * `copying`: looking after copy engines.
//! * `workers`: which worker has which queue; `events`: what workers tell; `service`: the thread that hears it.
//! * `watchdog`: workers that stand still; `thread_state`: what the kernel says of their threads.
//! * `inspect`: counters and tables for those who look.

mod acls;
mod capture;
mod compile;
mod copying;
mod core;
mod devices;
mod directory;
mod events;
mod export;
mod held_macs;
mod inspect;
mod kept;
mod life;
mod memif;
mod nat;
mod operations;
mod passage;
mod penalty;
mod policers;
mod port;
mod ports_of;
mod redirects;
mod registry;
mod routing;
mod service;
mod start;
mod tenants;
#[cfg(test)]
mod tests;
mod thread_state;
mod vips;
mod watchdog;
mod watching;
mod workers;

pub use start::{Engine, EngineError, EngineHandle, EngineOptions};
pub use watchdog::Patience;
