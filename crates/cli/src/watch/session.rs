//! Session events.

use std::future::pending;

use api::escape::Texts as _;
use api::text::{self, Words as _};
use api::v1::{SessionEnd, SessionEvent, SessionEventKind, SessionEventsRequest, SessionEventsResponse};
use tokio::signal::unix::{SignalKind, signal};
use tonic::Streaming;

use super::SessionArgs;
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::Form;
use crate::render::number::{span, time_of_day};
use crate::render::{Paint, Tone};
use crate::show::{SessionFlow, session_standing};

/// Watches until the end.
pub(super) async fn run(context: &Context, args: &SessionArgs) -> Result<Exit, Error> {
    if args.output.output == Form::Toml {
        return Err(Error::Usage("events come as lines: take --output table or json".into()));
    }
    let mut filter = args.filters.to_api();
    // Events say themselves that a session is blocked, wherever else it stands.
    filter.blocked = filter.blocked.filter(|blocked| *blocked);
    let request = SessionEventsRequest {
        filter: Some(filter),
        began: args.began,
        translated: args.translated,
        blocked: args.blocked,
        ended: args.ended,
    };
    let stream = context.connect().await?.session_events(request).await.doing("watch session")?;
    let mut watch = Watch { context, form: args.output.output, left: args.count, missed: 0 };
    let ended = watch.run(stream, args).await;
    if watch.missed > 0 {
        context.remark(
            "events are missed when they come faster than they are read: ask for fewer, by filters or --ended",
        );
    }
    ended.map(|()| Exit::Done)
}

/// Events on their way to the user.
struct Watch<'a> {
    context: &'a Context,
    form: Form,
    /// Events still to be shown; none: all that come.
    left: Option<u64>,
    missed: u64,
}

impl Watch<'_> {
    async fn run(
        &mut self,
        mut stream: Streaming<SessionEventsResponse>,
        args: &SessionArgs,
    ) -> Result<(), Error> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Output)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Output)?;
        let timeout = async {
            match args.duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => pending().await,
            }
        };
        tokio::pin!(timeout);
        while self.left != Some(0) {
            tokio::select! {
                part = stream.message() => match part.doing("watch session")? {
                    Some(part) => self.show(part)?,
                    None => return Err(Error::Ended { doing: "watch session" }),
                },
                () = &mut timeout => break,
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
            }
        }
        Ok(())
    }

    fn show(&mut self, mut part: SessionEventsResponse) -> Result<(), Error> {
        if let Some(left) = &mut self.left {
            part.events.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= part.events.len() as u64;
        }
        // In JSON, too: whoever counts events has to know that some aren't there.
        if part.missed > self.missed {
            self.context.remark(&format!("{} events were missed", part.missed - self.missed));
            self.missed = part.missed;
        }
        let mut lines = String::new();
        for event in &mut part.events {
            lines += &match self.form {
                Form::Json => text::line(event)?,
                Form::Table | Form::Toml => {
                    event.escape();
                    line(event, self.context.paint) + "\n"
                }
            };
        }
        self.context.print(&lines)
    }
}

/// "12:01:34.275411720  ended: timeout  red udp 10.1.0.2:40122 > 10.2.0.2:53  established, 2 packets 120 bytes, 1 and 60 back, 12.3 s".
fn line(event: &SessionEvent, paint: Paint) -> String {
    let session = event.session.clone().unwrap_or_default();
    let tone = match (event.kind(), event.end()) {
        (SessionEventKind::Blocked, _) | (_, SessionEnd::Blocked) => Tone::Bad,
        (_, SessionEnd::EvictedForQuota | SessionEnd::EvictedForTable) => Tone::Warn,
        (SessionEventKind::Began, _) => Tone::Good,
        _ => Tone::Plain,
    };
    let what = match event.end() {
        SessionEnd::Unspecified => event.kind().word(),
        end => format!("{}: {}", event.kind().word(), end.word()),
    };
    let mut text = format!(
        "{}  {}  {}",
        paint.tone(Tone::Faint, &time_of_day(event.timestamp_ns)),
        paint.tone(tone, &what),
        SessionFlow(&session)
    );
    if !event.drop_reason.is_empty() {
        text += &format!("  by {} ({})", event.drop_node, event.drop_reason);
    }
    if event.first_port != 0 {
        let given = if event.kind() == SessionEventKind::Ended { "given back" } else { "given" };
        text += &format!("  ports {}-{} {given}", event.first_port, event.last_port);
    }
    if event.kind() == SessionEventKind::Ended {
        text += &format!(
            "  {}, {} packets {} bytes, {} and {} back, {}",
            session_standing(&session),
            session.forward_packets,
            session.forward_bytes,
            session.reverse_packets,
            session.reverse_bytes,
            span(session.age_seconds)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::{SessionPhase, SessionState};

    #[test]
    fn an_event_is_a_line() {
        let session = SessionState {
            tenant: "red".into(),
            protocol: 17,
            initiator: "10.0.0.2".into(),
            initiator_port: 40000,
            responder: "10.0.1.2".into(),
            responder_port: 53,
            phase: SessionPhase::Established.into(),
            translated: "192.0.2.1".into(),
            translated_port: 50000,
            forward_packets: 2,
            forward_bytes: 120,
            reverse_packets: 1,
            reverse_bytes: 60,
            age_seconds: 12.34,
            ..SessionState::default()
        };
        let ended = SessionEvent {
            timestamp_ns: 43_294_275_000_000,
            kind: SessionEventKind::Ended.into(),
            end: SessionEnd::Timeout.into(),
            session: Some(session.clone()),
            ..SessionEvent::default()
        };
        assert_eq!(
            line(&ended, Paint::new(false)),
            "12:01:34.275000000  ended: timeout  red udp 10.0.0.2:40000 > 10.0.1.2:53 seen as 192.0.2.1:50000  \
             established, 2 packets 120 bytes, 1 and 60 back, 12.3 s"
        );
        let given = SessionEvent {
            kind: SessionEventKind::Translated.into(),
            end: SessionEnd::Unspecified.into(),
            first_port: 50000,
            last_port: 50511,
            ..ended.clone()
        };
        assert_eq!(
            line(&given, Paint::new(false)),
            "12:01:34.275000000  translated  red udp 10.0.0.2:40000 > 10.0.1.2:53 seen as 192.0.2.1:50000  \
             ports 50000-50511 given"
        );
        let backend = SessionState {
            translated: String::new(),
            backend: "10.3.0.1".into(),
            backend_port: 8053,
            ..session
        };
        let blocked = SessionEvent {
            kind: SessionEventKind::Blocked.into(),
            end: SessionEnd::Unspecified.into(),
            session: Some(backend),
            drop_node: "acl".into(),
            drop_reason: "denied".into(),
            ..ended
        };
        assert_eq!(
            line(&blocked, Paint::new(false)),
            "12:01:34.275000000  blocked  red udp 10.0.0.2:40000 > 10.0.1.2:53 backend 10.3.0.1:8053  by acl (denied)"
        );
    }
}
