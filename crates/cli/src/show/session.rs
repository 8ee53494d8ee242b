//! `show session`, and which sessions are meant.

use std::fmt;
use std::net::IpAddr;

use api::text::Words;
use api::v1::{SessionFilter, SessionPhase, SessionState, SessionsRequest, SessionsResponse, TcpState};
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::reference::candidates;
use crate::render::number::{short_span, span};
use crate::render::{Cell, Column, Paint, Table, Tone, endpoint};

/// IP protocols by name.
const PROTOCOLS: [(&str, u32); 9] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("sctp", 132),
    ("udp-lite", 136),
];

/// Which sessions are meant: those that agree with everything that is said.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Filters {
    /// Sessions of this tenant
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(candidates::tenants))]
    tenant: Option<String>,
    /// Sessions with this address on either side, also as it is seen outside
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    address: Option<IpAddr>,
    /// Sessions with this port on either side, with --address on the same one; for echoes their identifier
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Sessions of this protocol: tcp, udp, icmp, icmp6, sctp, esp, ah, or a number
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    protocol: Option<u32>,
    /// Session of ESP or AH with this SPI, as in 0xc0ffee01 or 3237998081
    #[arg(long, value_name = "SPI", value_parser = spi)]
    spi: Option<u32>,
    /// Sessions whose key this parser has given, as in gtpu
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    parser: Option<String>,
    /// Sessions that stand there, as the column STATE says; blocked: those of which no packet passes
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(states()))]
    state: Option<String>,
}

impl Filters {
    /// As quiverd is asked.
    pub(crate) fn to_api(&self) -> SessionFilter {
        let phase =
            self.state.as_deref().and_then(|word| SessionPhase::WORDS.iter().position(|one| *one == word));
        SessionFilter {
            tenant: self.tenant.clone().unwrap_or_default(),
            address: self.address.map(|address| address.to_string()).unwrap_or_default(),
            port: self.port.unwrap_or_default().into(),
            protocol: self.protocol,
            spi: self.spi,
            parser: self.parser.clone().unwrap_or_default(),
            // Words leave the first value out, which says nothing.
            phase: phase.map_or(0, |at| at as i32 + 1),
            blocked: self.state.as_deref().map(|word| word == BLOCKED),
        }
    }
}

/// Where a session stands of which no packet passes, whatever else is known of it.
const BLOCKED: &str = "blocked";

/// Where sessions can stand.
fn states() -> impl Iterator<Item = &'static str> {
    SessionPhase::WORDS.iter().copied().chain([BLOCKED])
}

/// The word for where a session stands.
pub(crate) fn standing(session: &SessionState) -> String {
    if session.blocked { BLOCKED.into() } else { session.phase().word() }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "take one address, of a host: 10.1.0.2 or fd00::2".into())
}

/// A protocol by a name as tables have it or as rules do, or by its number.
fn protocol(text: &str) -> Result<u32, String> {
    let said = match &*text.to_ascii_lowercase() {
        "icmpv6" => "icmp6".into(),
        "udplite" => "udp-lite".into(),
        said => said.to_owned(),
    };
    let known = PROTOCOLS.iter().find(|(name, _)| *name == said).map(|(_, number)| *number);
    let number = known.or_else(|| text.parse::<u8>().ok().map(u32::from));
    number.ok_or_else(|| {
        let names = PROTOCOLS.map(|(name, _)| name).join(", ");
        format!("take one of {names}, or a number from 0 to 255")
    })
}

/// An SPI, decimal or hexadecimal.
pub(crate) fn spi(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("an SPI is 1 to 4294967295, or 0x1 to 0xffffffff".into()),
    }
}

/// What sessions are put in order by, most of it first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Most {
    /// Bytes of both directions
    #[default]
    Bytes,
    /// Packets of both directions
    Packets,
    /// How long they have been there
    Age,
    /// How long ago their last packet came
    Idle,
    /// Round trips, as the service session-stats has measured them
    Rtt,
    /// Segments that were sent again or came late, as session-stats has counted them
    Repeated,
}

impl Most {
    /// How much of it a session has.
    fn of(self, session: &SessionState) -> f64 {
        let sides = [&session.initiator_statistics, &session.responder_statistics].into_iter().flatten();
        match self {
            Self::Bytes => (session.forward_bytes + session.reverse_bytes) as f64,
            Self::Packets => (session.forward_packets + session.reverse_packets) as f64,
            Self::Age => session.age_seconds,
            Self::Idle => session.idle_seconds,
            Self::Rtt => sides.map(|side| f64::from(side.rtt_microseconds)).sum(),
            Self::Repeated => sides.map(|side| f64::from(side.repeated_segments)).sum(),
        }
    }

    /// Keeps the `count` with most of it, in that order.
    fn keep(self, sessions: &mut Vec<SessionState>, count: usize) {
        sessions.sort_by(|one, other| self.of(other).total_cmp(&self.of(one)));
        sessions.truncate(count);
    }
}

/// Sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Which.
    pub(super) filters: Filters,
    /// At most so many.
    pub(super) limit: u32,
    /// Only those with most of something, so many of all that there are.
    pub(super) top: Option<(u32, Most)>,
}

impl View for Sessions {
    type Answer = SessionsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<SessionsResponse, Error> {
        let limit = if self.top.is_some() { 0 } else { self.limit };
        let request = SessionsRequest { filter: Some(self.filters.to_api()), limit };
        let mut stream = client.sessions(request).await.doing("show session")?;
        let mut all = SessionsResponse::default();
        while let Some(part) = stream.message().await.doing("show session")? {
            all.sessions.extend(part.sessions);
            if let Some((count, most)) = self.top {
                most.keep(&mut all.sessions, count as usize);
            }
        }
        Ok(all)
    }

    fn table(
        &self,
        answer: &SessionsResponse,
        _before: Option<Before<'_, SessionsResponse>>,
        paint: Paint,
    ) -> String {
        if answer.sessions.is_empty() {
            return "no sessions\n".into();
        }
        let mut table = Table::new([
            Column::left("TENANT"),
            Column::left("PROTOCOL"),
            Column::left("INITIATOR"),
            Column::left("RESPONDER"),
            Column::left("SPI").optional(),
            Column::left("KEY").optional(),
            Column::left("SEEN AS").optional(),
            Column::left("BACKEND").optional(),
            Column::left("STATE"),
            Column::right("PACKETS"),
            Column::right("BYTES"),
            Column::right("ANSWERS"),
            Column::right("BYTES"),
            Column::right("RTT").optional(),
            Column::right("REPEATED").optional(),
            Column::right("AGE"),
            Column::right("IDLE"),
        ]);
        for session in &answer.sessions {
            table.row([
                (&session.tenant).into(),
                kind(session).into(),
                side(session, &session.initiator, session.initiator_port).into(),
                side(session, &session.responder, session.responder_port).into(),
                session.spi.map_or_else(String::new, hexadecimal).into(),
                (&session.key).into(),
                side(session, &session.translated, session.translated_port).into(),
                side(session, &session.backend, session.backend_port).into(),
                phase(session),
                session.forward_packets.into(),
                session.forward_bytes.into(),
                session.reverse_packets.into(),
                session.reverse_bytes.into(),
                round_trip(session).into(),
                repeated(session).into(),
                span(session.age_seconds).into(),
                span(session.idle_seconds).into(),
            ]);
        }
        let mut text = table.render(paint);
        if self.top.is_none() && self.limit > 0 && answer.sessions.len() >= self.limit as usize {
            text.push_str(&format!("the first {} only: --limit says how many, 0: all\n", self.limit));
        }
        text
    }
}

/// Its protocol, or the parser that has found it.
fn kind(session: &SessionState) -> String {
    if session.parser.is_empty() { Protocol(session.protocol).to_string() } else { session.parser.clone() }
}

/// From the initiator to the other side and back, as far as it was measured.
fn round_trip(session: &SessionState) -> String {
    match Most::Rtt.of(session) {
        0.0 => String::new(),
        microseconds => short_span(microseconds),
    }
}

/// Segments that the initiator has sent again, and the other side.
fn repeated(session: &SessionState) -> String {
    match (session.protocol, &session.initiator_statistics, &session.responder_statistics) {
        (6, Some(initiator), Some(responder)) => {
            format!("{}/{}", initiator.repeated_segments, responder.repeated_segments)
        }
        _ => String::new(),
    }
}

/// One of its sides, or how it is seen by the other, where that is otherwise: an address with its port, or alone where there are none.
fn side(session: &SessionState, address: &str, port: u32) -> String {
    if address.is_empty() || session.spi.is_some() { address.into() } else { endpoint(address, port) }
}

fn hexadecimal(spi: u32) -> String {
    format!("{spi:#010x}")
}

fn phase(session: &SessionState) -> Cell {
    let phase = session.phase();
    let tone = match phase {
        SessionPhase::Established => Tone::Good,
        SessionPhase::Embryonic => Tone::Warn,
        SessionPhase::Closing | SessionPhase::TimeWait | SessionPhase::Unspecified => Tone::Plain,
    };
    let text = match (session.initiator_tcp(), session.responder_tcp()) {
        _ if session.blocked => standing(session),
        // An open connection is an established session: said once.
        (TcpState::Unspecified, _) | (_, TcpState::Unspecified) => phase.word(),
        (TcpState::Established, TcpState::Established) => phase.word(),
        (initiator, responder) => format!("{} ({}, {})", phase.word(), initiator.word(), responder.word()),
    };
    Cell::toned(text, if session.blocked { Tone::Bad } else { tone })
}

/// Whose session it is and between whom, in words: "red udp 10.1.0.2:40122 > 10.2.0.2:53", "red esp 10.1.0.2 > 10.2.0.2 spi 0xc0ffee01".
pub(crate) struct Flow<'a>(pub(crate) &'a SessionState);

impl fmt::Display for Flow<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(session) = self;
        let initiator = side(session, &session.initiator, session.initiator_port);
        let responder = side(session, &session.responder, session.responder_port);
        if !session.parser.is_empty() {
            return write!(formatter, "{} {} {}", session.tenant, session.parser, session.key);
        }
        write!(formatter, "{} {} {initiator} > {responder}", session.tenant, Protocol(session.protocol))?;
        if let Some(spi) = session.spi {
            write!(formatter, " spi {}", hexadecimal(spi))?;
        }
        if !session.translated.is_empty() {
            write!(formatter, " seen as {}", side(session, &session.translated, session.translated_port))?;
        }
        if !session.backend.is_empty() {
            write!(formatter, " backend {}", side(session, &session.backend, session.backend_port))?;
        }
        Ok(())
    }
}

/// An IP protocol, by name where it has one here.
struct Protocol(u32);

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => formatter.write_str(name),
            None => write!(formatter, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::SideStatistics;

    #[test]
    fn sessions_of_both_versions() {
        let udp = SessionState {
            tenant: "red".into(),
            protocol: 17,
            initiator: "10.0.0.2".into(),
            initiator_port: 40000,
            responder: "10.0.1.2".into(),
            responder_port: 53,
            phase: SessionPhase::Embryonic.into(),
            forward_packets: 2,
            forward_bytes: 120,
            age_seconds: 12.34,
            idle_seconds: 1.0,
            ..SessionState::default()
        };
        let tcp = SessionState {
            protocol: 6,
            initiator: "fd00::2".into(),
            responder: "fd01::2".into(),
            phase: SessionPhase::TimeWait.into(),
            reverse_packets: 7,
            ..udp.clone()
        };
        let halves = SessionState {
            initiator_tcp: TcpState::FinWait2.into(),
            responder_tcp: TcpState::CloseWait.into(),
            phase: SessionPhase::Closing.into(),
            ..tcp.clone()
        };
        let blocked = SessionState {
            blocked: true,
            translated: "192.0.2.1".into(),
            translated_port: 40001,
            ..udp.clone()
        };
        let answer = SessionsResponse { sessions: vec![udp, tcp] };
        let view = |limit| Sessions { filters: Filters::default(), limit, top: None };
        let all = "TENANT  PROTOCOL  INITIATOR        RESPONDER     STATE      PACKETS  BYTES  ANSWERS  BYTES     AGE  IDLE\n\
                   red     udp       10.0.0.2:40000   10.0.1.2:53   embryonic        2    120        0      0  12.3 s   1 s\n\
                   red     tcp       [fd00::2]:40000  [fd01::2]:53  time_wait        2    120        7      0  12.3 s   1 s\n";
        assert_eq!(view(0).table(&answer, None, Paint::new(false)), all);
        let more =
            view(0).table(&SessionsResponse { sessions: vec![halves, blocked] }, None, Paint::new(false));
        assert!(more.contains(" closing (fin_wait_2, close_wait) ") && more.contains(" blocked "), "{more}");
        assert!(
            more.contains("SEEN AS") && more.contains("10.0.1.2:53   192.0.2.1:40001  blocked"),
            "{more}"
        );
        let cut = view(2).table(&answer, None, Paint::new(false));
        assert_eq!(cut, format!("{all}the first 2 only: --limit says how many, 0: all\n"));
        assert_eq!(view(0).table(&SessionsResponse::default(), None, Paint::new(false)), "no sessions\n");
    }

    #[test]
    fn those_with_most_come_first_and_show_what_was_noted() {
        let side = |rtt_microseconds, repeated_segments| {
            Some(SideStatistics { rtt_microseconds, repeated_segments, ..SideStatistics::default() })
        };
        let session = |id: &str, forward_bytes, initiator_statistics, responder_statistics| SessionState {
            id: id.into(),
            protocol: 6,
            forward_bytes,
            initiator_statistics,
            responder_statistics,
            ..SessionState::default()
        };
        let all = || {
            vec![
                session("far", 10, side(200, 0), side(38_000, 1)),
                session("unknown", 1000, None, None),
                session("near", 20, side(100, 4), side(300, 1)),
            ]
        };
        let first = |most: Most, count| {
            let mut all = all();
            most.keep(&mut all, count);
            all.into_iter().map(|session| session.id).collect::<Vec<_>>()
        };
        assert_eq!(first(Most::Bytes, 2), ["unknown", "near"]);
        assert_eq!(first(Most::Rtt, 3), ["far", "near", "unknown"]);
        assert_eq!(first(Most::Repeated, 1), ["near"]);
        assert_eq!(all().iter().map(round_trip).collect::<Vec<_>>(), ["38.2 ms", "", "400 µs"]);
        assert_eq!(all().iter().map(repeated).collect::<Vec<_>>(), ["0/1", "", "4/1"]);
    }

    #[test]
    fn sessions_that_a_parser_finds_have_its_key() {
        let tunnel = SessionState {
            tenant: "ran".into(),
            protocol: 17,
            responder: "10.0.0.9".into(),
            responder_port: 2152,
            parser: "gtpu".into(),
            key: "10.0.0.9 teid 0x00001234".into(),
            ..SessionState::default()
        };
        assert_eq!(Flow(&tunnel).to_string(), "ran gtpu 10.0.0.9 teid 0x00001234");
        let view = Sessions { filters: Filters::default(), limit: 0, top: None };
        let answer = SessionsResponse { sessions: vec![tunnel] };
        let text = view.table(&answer, None, Paint::new(false));
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0][..5], ["TENANT", "PROTOCOL", "INITIATOR", "RESPONDER", "KEY"]);
        assert_eq!(words[1][..6], ["ran", "gtpu", "10.0.0.9:2152", "10.0.0.9", "teid", "0x00001234"]);
    }

    #[test]
    fn sessions_of_esp_have_an_spi_and_no_ports() {
        let esp = SessionState {
            tenant: "red".into(),
            protocol: 50,
            initiator: "fd00::2".into(),
            responder: "fd01::2".into(),
            spi: Some(0xc0_ffee),
            phase: SessionPhase::Established.into(),
            ..SessionState::default()
        };
        assert_eq!(Flow(&esp).to_string(), "red esp fd00::2 > fd01::2 spi 0x00c0ffee");
        let view = Sessions { filters: Filters::default(), limit: 0, top: None };
        let text = view.table(&SessionsResponse { sessions: vec![esp] }, None, Paint::new(false));
        assert!(
            text.contains("RESPONDER  SPI         STATE") && text.contains("fd01::2    0x00c0ffee  "),
            "{text}"
        );
        assert_eq!((spi("0xc0ffee"), spi("256")), (Ok(0xc0_ffee), Ok(256)));
        assert!(spi("0").is_err() && spi("0x1ffffffff").is_err() && spi("c0ffee").is_err());
    }

    #[test]
    fn protocols_have_names_and_numbers() {
        assert_eq!((protocol("TCP"), protocol("47")), (Ok(6), Ok(47)));
        assert_eq!(["icmp6", "ICMPv6", "udp-lite", "udplite"].map(protocol), [58, 58, 136, 136].map(Ok));
        assert!(address("fd00::2").is_ok() && address("10.1.0.0/24").unwrap_err().contains("one address"));
        assert!(protocol("300").is_err() && protocol("tpc").is_err());
        assert_eq!((Protocol(58).to_string(), Protocol(47).to_string()), ("icmp6".into(), "47".into()));
    }

    #[test]
    fn a_state_is_asked_for_by_its_word() {
        for (at, word) in SessionPhase::WORDS.iter().enumerate() {
            let filters = Filters { state: Some((*word).into()), ..Filters::default() };
            assert_eq!(filters.to_api().phase().word(), *word, "{at}");
            assert_eq!(filters.to_api().blocked, Some(false), "{word}");
        }
        let blocked = Filters { state: Some("blocked".into()), ..Filters::default() }.to_api();
        assert_eq!((blocked.phase(), blocked.blocked), (SessionPhase::Unspecified, Some(true)));
        assert_eq!(Filters::default().to_api(), SessionFilter::default());
    }
}
