//! `quiverd` as a program: command line, settings, engine and daemon. With services that are written elsewhere it is another program:
//! `docs/write-a-service.md`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use api::escape;
use clap::Parser;
use features::session::service::{self, Service};
use tokio::signal::unix::{SignalKind, signal};

use crate::engine::{Engine, EngineOptions, Patience};
use crate::settings::{self, HugePages, Settings, SettingsError};
use crate::{check, crash, daemon, grpc, held, logging, open_files, version};

/// The Quiver daemon: moves packets between pods, taps and interfaces as the desired state says.
#[derive(Debug, Parser)]
#[command(name = "quiverd", version = version::LINE, after_help = "Settings are read from /etc/quiver/quiverd.toml. Everything else comes through the API: see `quiver apply --help`.")]
struct Options {
    /// Settings file
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Check the settings, say what would be used, and exit
    #[arg(long)]
    check: bool,
}

/// Runs quiverd as its command line says, with these services besides its own. To be called first of all, and once.
#[must_use]
pub fn run(services: &[Service]) -> ExitCode {
    run_with(services, &[])
}

/// The same, with these parsers besides its own, too.
#[must_use]
pub fn run_with(services: &[Service], parsers: &[service::Parser]) -> ExitCode {
    version::uptime(); // begins to count
    let options = Options::parse();
    let added = service::add(services).and_then(|()| service::add_parsers(parsers));
    match added.map_err(Box::from).and_then(|()| start(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quiverd: {}", printed(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Blocking threads besides those of calls: for collections of metrics, and what ends the process.
const BLOCKING: usize = 64;

fn start(options: &Options) -> Result<(), Box<dyn Error>> {
    let settings = settings::load(options.config.as_deref())?;
    let available = settings::available_cores()?;
    let cores = settings::place_workers(&settings.workers, &available)?;
    if options.check {
        logging::filter(&settings.log)?;
        check::check(&settings, &cores)?;
        println!("{}", summary(&settings, &cores));
        for setting in settings.copy.without_effect() {
            println!("  note     {}", idle(setting, &settings));
        }
        return Ok(());
    }
    logging::start(&settings.log)?;
    crash::abort_on_panic();
    open_files::raise();
    settings::leave_to_workers(&cores, &available)?;
    memory::heap::map_large();
    if settings.memory.huge_pages != HugePages::Never {
        memory::heap::start_backing()?;
        tables::backing::set(memory::heap::back_ahead);
    }
    tracing::info!(version = version::LINE, ?cores, "starting");
    for setting in settings.copy.without_effect() {
        tracing::warn!("{}", idle(setting, &settings));
    }
    // Control tasks only; packets move on threads of their own.
    // A call may hold a blocking thread for as long as its client reads: there are more threads than calls.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(grpc::LIMITS.calls + BLOCKING)
        .enable_all()
        .build()?;
    let engine = Engine::start(&engine_options(&settings, &cores))?;
    let inspect = Arc::new(engine.handle());
    let ended = runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        Ok(daemon::run(&settings, Box::new(engine), inspect, stop).await?)
    });
    held::say_what_keeps_us();
    ended
}

/// An error in plain characters, and in one line unless it shows its place in a file.
fn printed(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let escaped = match error.downcast_ref::<SettingsError>() {
        Some(SettingsError::Parse { .. }) => escape::lines(&text),
        _ => escape::text(&text),
    };
    escaped.into_owned()
}

/// How the settings want the engine.
fn engine_options(settings: &Settings, cores: &[usize]) -> EngineOptions {
    EngineOptions {
        cores: cores.iter().copied().map(Some).collect(),
        tier: None,
        huge_pages: match settings.memory.huge_pages {
            HugePages::Try => memif::region::HugePages::Try,
            HugePages::Never => memif::region::HugePages::Never,
            HugePages::Require => memif::region::HugePages::Require,
        },
        copy: settings.copy.options(cores),
        ipfix: settings.ipfix.clone(),
        fib_bytes: None,
        sessions: settings.workers.sessions.get(),
        captures: settings.memory.captures_mib.bytes(),
        patience: Patience {
            notice: settings.workers.stuck_seconds.get(),
            restart: settings.workers.restart_seconds.get(settings.workers.stuck_seconds),
        },
    }
}

/// That a setting of a copy engine says something to nobody.
fn idle(setting: &str, settings: &Settings) -> String {
    format!("{setting} has no effect while copy.engine is \"{}\"", settings.copy.engine)
}

/// What the settings come to.
fn summary(settings: &Settings, cores: &[usize]) -> String {
    let cores = cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let ipfix = settings.ipfix.iter().map(|one| format!("\n  IPFIX    to {}", one.collector));
    format!(
        "settings are good\n  API      {}\n  metrics  {}\n  health   {}\n  state    {}\n  workers  on cores {cores}{}",
        escape::path(&settings.api.socket),
        settings.metrics.listen,
        settings.health_listen(),
        escape::path(&settings.state.directory),
        ipfix.collect::<String>(),
    )
}
