//! From the command line to the command.

use std::io::ErrorKind;

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::{clear, config, doctor, explain, pcap, reference, show, top, trace, verdict, watch};

/// Does what the command line says.
///
/// # Errors
/// [`Error`], whose text is for the user and whose [`Error::exit`] is for the shell.
pub fn run(cli: Cli) -> Result<Exit, Error> {
    match dispatch(cli) {
        // Whoever reads wants no more (`| head`): nothing went wrong.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        result => result,
    }
}

/// Finds the command.
fn dispatch(cli: Cli) -> Result<Exit, Error> {
    let context = Context::new(&cli.global);
    if cli.global.until_eof {
        end_with_input();
    }
    match cli.command {
        // These need no quiverd.
        Command::Completion(args) => reference::completion(&context, &args),
        Command::Man(args) => reference::man(&args),
        Command::Reference(args) => reference::reference(&context, &args),
        // One thread for the connection: quiverd is asked whether it is there also while this one waits for who reads the output.
        command => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(Error::Output)?
            .block_on(talk(&context, command))
            .map_err(|error| error.asked_at(&context.socket)),
    }
}

/// From now on the end of standard input ends the process.
fn end_with_input() {
    // (Of the runtime's own reading a process that is done would have to wait for the end.)
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    });
}

/// Commands that talk to quiverd, or try to.
async fn talk(context: &Context, command: Command) -> Result<Exit, Error> {
    match command {
        Command::Apply(args) => config::apply(context, &args).await,
        Command::Diff(args) => config::diff(context, &args).await,
        Command::Get(args) => config::get(context, &args).await,
        Command::Delete(args) => config::delete(context, &args).await,
        Command::Show(args) => show::run(context, &args).await,
        Command::Explain(args) => explain::run(context, &args).await,
        Command::Trace(args) => trace::run(context, &args).await,
        Command::Pcap(args) => pcap::run(context, &args).await,
        Command::Top(args) => top::run(context, &args).await,
        Command::Watch(args) => watch::run(context, &args).await,
        Command::Doctor(args) => doctor::run(context, &args).await,
        Command::Clear(args) => clear::run(context, &args).await,
        Command::Verdict(args) => verdict::run(context, &args).await,
        Command::Completion(_) | Command::Man(_) | Command::Reference(_) => Ok(Exit::Done),
    }
}
