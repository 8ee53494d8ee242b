//! The terminal and the loop.

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::app::{App, Next};
use super::figures::Figures;
use super::sample::{self, Sample};
use super::view::draw;
use crate::context::Client;
use crate::error::Error;
use crate::render::Paint;

/// How long a key is waited for before the clock is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Longest time to wait for quiverd: keys don't count meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes the screen, runs, gives it back, also after an error or a panic.
pub(super) async fn run(client: Client, interval: Duration, paint: Paint) -> Result<(), Error> {
    let mut terminal =
        ratatui::try_init().map_err(|error| Error::Terminal(format!("can't use the terminal: {error}")))?;
    let result = watch(&mut terminal, client, App::new(interval, paint.colored())).await;
    ratatui::restore();
    result
}

async fn watch(terminal: &mut DefaultTerminal, mut client: Client, mut app: App) -> Result<(), Error> {
    let mut samples: Option<(Option<Sample>, Sample)> = None;
    let mut due = Instant::now();
    loop {
        if !app.paused && Instant::now() >= due {
            match tokio::time::timeout(PATIENCE, sample::take(&mut client)).await {
                Ok(Ok(sample)) => {
                    app.trouble.clear();
                    samples = Some((samples.map(|(_, last)| last), sample));
                }
                // The channel connects again by itself.
                Ok(Err(error)) => app.trouble = error.to_string(),
                Err(_) => app.trouble = "quiverd doesn't answer".into(),
            }
            let first = samples.as_ref().is_some_and(|(earlier, _)| earlier.is_none());
            // The second sample comes soon, so that there is something to see.
            due = Instant::now()
                + if first { app.interval.min(Duration::from_millis(250)) } else { app.interval };
        }
        let figures = match &samples {
            Some((Some(then), now)) => Some(Figures::new(then, now, app.order)),
            _ => None,
        };
        terminal.draw(|frame| draw(frame, &app, figures.as_ref())).map_err(Error::Output)?;
        loop {
            let next = match tokio::task::spawn_blocking(input).await {
                Ok(Ok(Some(Event::Key(key)))) if key.kind == KeyEventKind::Press => app.key(key),
                Ok(Ok(Some(Event::Resize(..)))) => Next::Draw,
                Ok(Ok(_)) => Next::Nothing,
                Ok(Err(error)) => return Err(Error::Output(error)),
                // The runtime is ending.
                Err(_) => Next::Quit,
            };
            match next {
                Next::Quit => return Ok(()),
                Next::Draw => break,
                Next::Nothing if !app.paused && Instant::now() >= due => break,
                Next::Nothing => {}
            }
        }
    }
}

/// Waits a moment for something the user does.
fn input() -> std::io::Result<Option<Event>> {
    if event::poll(TICK)? { event::read().map(Some) } else { Ok(None) }
}
