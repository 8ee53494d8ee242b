//! The command line of Quiver.
//!
//! A client of quiverd and nothing more: it speaks `quiver.v1` over the unix socket and sees nothing of the inside.
//!
//! - [`Cli`]: the tree of commands. Each command has its own folder with its arguments, what it asks of quiverd, and
//!   how it writes the answer.
//! - `config`: apply, diff, get, delete: the desired state.
//! - `show`, `top`: the running state, once, again and again, or live.
//! - `trace`, `pcap`: single packets.
//! - `clear`: sets back what is counted or collected.
//! - `doctor`: whether this machine is fit, without quiverd.
//! - `reference`: completion, man pages and `docs/reference/cli.md`, all from the tree of commands.
//! - `render`: tables, numbers, colours.
//! - [`Error`] and [`Exit`]: what can go wrong, and the exit status that scripts may rely on.
//!
//! Writing an answer is a function from message to text everywhere, so that tests compare texts.
#![forbid(unsafe_code)]

mod clear;
mod cli;
mod config;
mod context;
mod doctor;
mod error;
mod exit;
mod explain;
mod output;
mod pcap;
mod reference;
mod render;
mod run;
mod seconds;
mod show;
mod top;
mod trace;
mod verdict;
mod watch;

pub use cli::Cli;
pub use error::Error;
pub use exit::Exit;
pub use reference::{COMPLETION_VARIABLE, markdown};
pub use run::run;
