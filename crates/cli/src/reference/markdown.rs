//! `docs/reference/cli.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, CommandFactory, ValueHint};

use crate::cli::Cli;
use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;

/// What to do with the reference; without options it goes to standard output.
#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// Write it to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    write: Option<PathBuf>,
    /// Compare this file with it (exit status 1: it differs)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "write")]
    check: Option<PathBuf>,
}

/// Writes or compares.
pub(crate) fn reference(context: &Context, args: &ReferenceArgs) -> Result<Exit, Error> {
    let text = markdown();
    if let Some(path) = &args.check {
        return check(path, &text);
    }
    match &args.write {
        Some(path) => {
            std::fs::write(path, text).map_err(|source| Error::Write { path: path.clone(), source })?
        }
        None => context.print(&text)?,
    }
    Ok(Exit::Done)
}

/// Compares a file with what it should be.
fn check(path: &Path, expected: &str) -> Result<Exit, Error> {
    // A missing file differs from the first line on.
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found == expected {
        return Ok(Exit::Done);
    }
    let same = found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    Err(Error::Stale { path: path.to_owned(), line: same + 1 })
}

/// The reference of all commands, as Markdown.
pub fn markdown() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = String::from(
        "# quiver: command reference\n\n\
         <!-- Written by `quiver reference --write docs/reference/cli.md`; a test compares. -->\n\n",
    );
    section(&mut text, &root, "quiver", true);
    exit_statuses(&mut text);
    for command in visible(&root) {
        family(&mut text, command, "quiver");
    }
    text
}

/// A command and all below it.
fn family(text: &mut String, command: &Command, parent: &str) {
    let path = format!("{parent} {}", command.get_name());
    let _ = writeln!(text, "## {path}\n");
    section(text, command, &path, false);
    for child in visible(command) {
        family(text, child, &path);
    }
}

/// What one command is for and takes. Global options are told once, at the root.
fn section(text: &mut String, command: &Command, path: &str, root: bool) {
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        let _ = writeln!(text, "{}\n", paragraphs(&about.to_string()));
    }
    let aliases = command.get_all_aliases().map(|alias| format!("`{alias}`")).collect::<Vec<_>>();
    if !aliases.is_empty() {
        let _ = writeln!(text, "Also: {}\n", aliases.join(", "));
    }
    let _ = writeln!(text, "```\n{}\n```\n", usage(command, path));
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && (root || !argument.is_global_set()))
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
        .collect::<Vec<_>>();
    for argument in &arguments {
        let _ = writeln!(text, "- {}", item(argument));
    }
    if !arguments.is_empty() {
        text.push('\n');
    }
    let children = visible(command).collect::<Vec<_>>();
    if !children.is_empty() {
        text.push_str("| command | |\n|---|---|\n");
        for child in children {
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            let name = format!("{path} {}", child.get_name());
            let _ = writeln!(
                text,
                "| [`{name}`](#{}) | {} |",
                name.replace(' ', "-"),
                escape(&about).replace('|', "\\|")
            );
        }
        text.push('\n');
    }
}

/// The line after "Usage:".
fn usage(command: &Command, path: &str) -> String {
    // Rendering needs a command it may change.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    // A child is called "quiver-show" while it stands alone.
    match usage.split_once([' ', '\n']) {
        Some((_, rest)) if !usage.starts_with(path) => format!("{path} {rest}"),
        _ => usage.to_owned(),
    }
}

/// One argument: how it is written, what it does, what it may be.
fn item(argument: &Arg) -> String {
    let mut names = Vec::new();
    let values = argument
        .get_value_names()
        .filter(|_| argument.is_positional() || argument.get_action().takes_values())
        .map(|names| names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" "));
    let optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
    let value = values.map(|value| if optional { format!("[{value}]") } else { value });
    if argument.is_positional() {
        names.push(value.unwrap_or_else(|| format!("<{}>", argument.get_id())));
    } else {
        names.extend(argument.get_short().map(|short| format!("-{short}")));
        let tail = value.map(|value| format!(" {value}")).unwrap_or_default();
        names.extend(argument.get_long().map(|long| format!("--{long}{tail}")));
    }
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut notes = Vec::new();
    let choices = argument.get_possible_values();
    if !choices.is_empty() && argument.get_action().takes_values() {
        let choices = choices.iter().map(|choice| format!("`{}`", choice.get_name())).collect::<Vec<_>>();
        notes.push(choices.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!("environment `{}`", variable.to_string_lossy()));
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && argument.get_action().takes_values() && !argument.is_hide_default_value_set() {
        let defaults = defaults.iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>();
        notes.push(format!("default `{}`", defaults.join(" ")));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("{names}: {}{notes}", paragraphs(&help).replace('\n', " "))
}

/// The table of exit statuses.
fn exit_statuses(text: &mut String) {
    text.push_str("Exit status, stable over versions:\n\n| status | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text.push('\n');
}

/// Commands that are shown.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set())
}

/// Paragraphs of a help text with blanks at their ends taken away.
fn paragraphs(text: &str) -> String {
    text.lines().map(|line| escape(line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// Characters that mean something else in Markdown.
fn escape(text: &str) -> String {
    text.replace('<', "&lt;")
}
