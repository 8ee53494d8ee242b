//! One subject, shown once or repeatedly.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::escape::Texts;
use api::text;
use clap::Args;
use serde::Serialize;

use crate::context::{Client, Context};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Form, OutputArgs};
use crate::render::{Paint, Tone, number};
use crate::seconds;

/// How to show.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowOptions {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Show again every SECS seconds until Ctrl-C, with rates; JSON comes as one line each
    #[arg(short, long, value_name = "SECS", value_parser = seconds::parse)]
    #[arg(num_args = 0..=1, default_missing_value = "2")]
    pub(crate) watch: Option<Duration>,
    /// Take two samples SECS seconds apart and show what happened in between, with rates
    #[arg(long, value_name = "SECS", value_parser = seconds::parse, conflicts_with = "watch")]
    pub(crate) interval: Option<Duration>,
}

/// An earlier answer.
#[derive(Debug)]
pub(crate) struct Before<'a, A> {
    /// The answer.
    pub(crate) answer: &'a A,
    /// How long before.
    pub(crate) elapsed: Duration,
}

// Not derived: A needn't be Copy.
impl<A> Clone for Before<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Before<'_, A> {}

/// What to ask, and how the answer looks.
pub(crate) trait View {
    /// The answer.
    type Answer: Serialize + Texts;

    /// Asks.
    async fn fetch(&self, client: &mut Client) -> Result<Self::Answer, Error>;

    /// Writes the answer for people; with an earlier one also rates.
    fn table(&self, answer: &Self::Answer, before: Option<Before<'_, Self::Answer>>, paint: Paint) -> String;
}

/// Shows a subject as the options say.
pub(crate) async fn show<V: View>(context: &Context, options: &ShowOptions, view: &V) -> Result<Exit, Error> {
    let mut client = context.connect().await?;
    let mut earlier = None;
    if let Some(interval) = options.interval {
        let mut first = view.fetch(&mut client).await?;
        if options.output.output == Form::Table {
            first.escape();
        }
        earlier = Some((first, Instant::now()));
        tokio::time::sleep(interval).await;
    }
    loop {
        let mut answer = view.fetch(&mut client).await?;
        let at = Instant::now();
        let before =
            earlier.as_ref().map(|(answer, then)| Before { answer, elapsed: at.duration_since(*then) });
        let Some(every) = options.watch else {
            let text = options
                .output
                .output
                .write(&mut answer, |answer| view.table(answer, before, context.paint))?;
            context.print(&text)?;
            return Ok(Exit::Done);
        };
        let text = match options.output.output {
            Form::Json => text::line(&answer)?,
            form => form.write(&mut answer, |answer| view.table(answer, before, context.paint))? + "\n",
        };
        context.print(&frame(&text, every, options.output.output, context))?;
        earlier = Some((answer, at));
        tokio::time::sleep(every).await;
    }
}

/// On a terminal every table begins at the top of a clean screen; elsewhere they follow one another.
fn frame(text: &str, every: Duration, form: Form, context: &Context) -> String {
    if form != Form::Table || !context.terminal {
        return text.to_owned();
    }
    // Time before 1970 shows as midnight.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock = number::time_of_day(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let clock = clock.split('.').next().unwrap_or_default();
    let heading = format!("every {}, Ctrl-C ends; {clock} UTC", number::span(every.as_secs_f64()));
    // Home, then the text with the rest of each line cleared, then the rest of the screen: no flicker.
    let body = text.replace('\n', "\x1b[K\n");
    format!("\x1b[H{}\x1b[K\n\x1b[K\n{body}\x1b[J", context.paint.tone(Tone::Faint, &heading))
}
