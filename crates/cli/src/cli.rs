//! The tree of commands. Doc comments are the help texts.

use std::path::PathBuf;

use api::client::DEFAULT_SOCKET;
use clap::{Args, Parser, Subcommand, ValueHint};

use crate::config::{ApplyArgs, DeleteArgs, DiffArgs, GetArgs};
use crate::doctor::DoctorArgs;
use crate::exit::Exit;
use crate::explain::ExplainArgs;
use crate::pcap::PcapArgs;
use crate::reference::{CompletionArgs, ManArgs, ReferenceArgs};
use crate::render::ColorChoice;
use crate::show::ShowArgs;
use crate::top::TopArgs;
use crate::trace::TraceArgs;
use crate::verdict::VerdictArgs;
use crate::watch::WatchArgs;

/// What this program was built from, in one line.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("QUIVER_CLI_COMMIT"), ")");

/// Talk to quiverd: change what shall exist, see what happens to packets.
#[derive(Debug, Parser)]
#[command(name = "quiver", version = VERSION, propagate_version = false, max_term_width = 120, after_help = Exit::help())]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Unix socket quiverd listens on
    #[arg(long, global = true, value_name = "PATH", env = "QUIVER_SOCKET", hide_env_values = true)]
    #[arg(default_value = DEFAULT_SOCKET, value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,
    /// Whether to use colours; auto: only on a terminal, and not if NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// End when standard input does, as SIGTERM has it: for who runs this elsewhere, and may go away
    #[arg(long, global = true)]
    pub(crate) until_eof: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or change objects as files say
    ///
    /// Sends all objects of all files as one batch. The batch is in force as a whole or not at all. Objects may come
    /// in any order; one that needs another that isn't there yet is accepted and waits for it (pending).
    Apply(ApplyArgs),
    /// Say what apply would change, and change nothing
    ///
    /// Exit status 0: nothing would change; 1: something would.
    Diff(DiffArgs),
    /// List objects of the desired state with what became of them
    ///
    /// With -o toml or -o json the output can be applied again.
    Get(GetArgs),
    /// Delete objects by name, or all objects a file names
    Delete(DeleteArgs),
    /// Show how things run: interfaces, load, drops, tables
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Show(ShowArgs),
    /// Say what a packet would meet as things are now, and what would become of it
    ///
    /// Policer and filter of its interface, tenant, session, each service with what it looks up (rules, VIPs, pools), and routes. Asks the tables that
    /// workers ask; no packet is sent, nothing changes and nothing is counted.
    Explain(ExplainArgs),
    /// Follow single packets through the graph
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Trace(TraceArgs),
    /// Capture packets into a pcapng file
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Pcap(PcapArgs),
    /// Watch workers, interfaces, nodes and drops live
    ///
    /// Keys: q quit, Tab or 1 to 4 one panel large, 0 all panels, s order, p pause, + and - speed, arrows scroll,
    /// h help.
    Top(TopArgs),
    /// Tell what happens, as it happens: sessions that begin and end
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Watch(WatchArgs),
    /// Check whether this machine is fit for quiverd, and say what to do
    ///
    /// Needs no quiverd. Each check says ok, warn or fail, what that means and what to do. Exit status 1 if a check
    /// failed.
    Doctor(DoctorArgs),
    /// Set counters to zero, end sessions, or forget traces
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Clear(crate::clear::ClearArgs),
    /// Say what becomes of the rest of sessions that an engine looks into: all of them, or those that agree with everything that is said
    ///
    /// For engines, and for those who read what they write. Sessions of tenants without the service redirect aren't judged. The verdict holds until
    /// the session ends or its tenant, a list that the tenant names, or a set of such a list changes.
    Verdict(VerdictArgs),
    /// Write the script that teaches a shell to complete commands and names
    ///
    /// bash: source <(quiver completion bash); zsh: source <(quiver completion zsh);
    /// fish: quiver completion fish | source
    Completion(CompletionArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Write or check the reference of all commands
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_a_help_text() {
        fn walk(command: &clap::Command, path: &str) {
            assert!(command.get_about().is_some(), "{path} says nothing about itself");
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{path}: {id} has no help text");
            }
            for child in command.get_subcommands() {
                walk(child, &format!("{path} {}", child.get_name()));
            }
        }
        walk(&Cli::command(), "quiver");
    }
}
