//! `quiver doctor`: whether this machine is fit for quiverd.
//!
//! Each check has its file: what it looks at, and a function from that to a [`Check`], so that tests can show it
//! machines there are not. What is read from `/proc` and `/sys` goes through [`Files`].
//!
//! ok: nothing to do. warn: works, but slower or only in part. fail: quiverd can't do its work here.

mod capabilities;
mod check;
mod cores;
mod cpu_list;
mod files;
mod huge_pages;
mod kernel;
mod memlock;
mod quiverd;
mod report;
mod simd;
mod state;
mod tun;

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::OutputArgs;
use check::{Check, Verdict};
use files::Files;
use report::Report;

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Folder in which quiverd keeps the desired state
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/quiver", value_hint = ValueHint::DirPath)]
    state_dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Checks and reports.
pub(crate) async fn run(context: &Context, args: &DoctorArgs) -> Result<Exit, Error> {
    let files = Files::real();
    let root = rustix::process::geteuid().is_root();
    let mut report = Report::new(vec![
        kernel::version(&files),
        kernel::memfd(),
        kernel::autogroup(&files),
        huge_pages::check(&files),
        memlock::check(),
        cores::check(&files),
        simd::check(&files),
        tun::check(root),
        capabilities::check(root),
        state::check(&args.state_dir, root),
        quiverd::check(context).await,
    ]);
    context.print(&args.output.output.write(&mut report, |report| report.table(context.paint))?)?;
    Ok(if report.verdict() == Verdict::Fail { Exit::Differs } else { Exit::Done })
}
