//! The packet engine behind [`Dataplane`](crate::dataplane::Dataplane): tables, workers, ports.
//!
//! * [`engine`](self): [`Engine`] owns everything. Changes come from the control thread, events (links, punted packets,
//!   timers) from a thread of its own; both work on the [`core::Core`] under one lock, which workers never take.
//! * `operations`: what the control thread asks for, step by step; `compile`: an interface as workers see it.
//! * `life`: interfaces and ports come, change and go; `devices`: what they leave in network namespaces; `passage`: in which
//!   order queues and ways come and go.
//! * `registry`: interfaces by name and index; `port`, `ports_of`: opening ports; `capture`: seeing packets.
//! * `memif`: sockets of memif interfaces; `links`: what is known of their links; `quiet`: what peers can't flood the log with.
//! * `workers`: which worker has which queue; `events`: what workers tell; `service`: the thread that hears it.
//! * `inspect`: counters and tables for those who look.

mod accounts;
mod capture;
mod compile;
mod core;
mod devices;
mod events;
mod inspect;
mod life;
mod links;
mod memif;
mod operations;
mod passage;
mod port;
mod ports_of;
mod quiet;
mod registry;
mod routing;
mod service;
mod start;
mod workers;

pub use start::{Engine, EngineError, EngineHandle, EngineOptions};
