//! Hostile servers.

mod control;
mod raw;
mod rings;
mod victim;
