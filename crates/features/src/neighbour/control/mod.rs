//! The control thread's side: a state machine without I/O. Events and the time go in, [`Action`]s come out.
//!
//! ```text
//!              resolve           answer                    reachable time over
//!   (nothing) ────────▶ Incomplete ──────▶ Reachable ────────────────────────▶ Probe
//!        ▲                  │ 3 × no answer     ▲  ▲                            │ │
//!        │                  ▼                   │  └──────── answer ────────────┘ │
//!        ├──── a moment ─ Failed        heard of, not asked: Stale ─ 5 s ─▶ Probe │
//!        └──────────────────────────────────── 3 × no answer ────────────────────┘
//! ```
//!
//! This is RFC 4861 section 7.3 for both protocols, with one difference: workers don't tell which neighbours are in
//! use, so a neighbour whose time is over is probed at once (by unicast) instead of waiting for a packet. Every neighbour
//! in the table is asked once in its reachable time, and the ones that are gone leave the forwarding tables by
//! themselves.

mod action;
mod config;
mod entry;
mod events;
mod links;
mod machine;
mod progress;
mod table;
#[cfg(test)]
mod tests;

pub use action::Action;
pub use config::{Config, WAITING};
pub use entry::{NeighbourKey, NeighbourView, State};
pub use machine::Neighbours;
