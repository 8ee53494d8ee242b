//! Hostile servers.

mod control;
mod group;
mod member;
mod raw;
mod rings;
mod victim;
