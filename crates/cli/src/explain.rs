//! `quiver explain`: what a packet would meet.

use std::net::{IpAddr, SocketAddr};

use api::text::Words;
use api::v1::{ExplainRequest, ExplainResponse, ExplainStep, ExplainVerdict};
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::OutputArgs;
use crate::reference::candidates;
use crate::render::{Column, Paint, Table, Tone};
use crate::show::session_spi;

/// The packet.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Who sends it: an address, or address:port (10.1.0.2:40122, [fd00::2]:40122); port 1024 where none is said
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Whom it is for, likewise
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Protocol, with the destination's port where that isn't said there: tcp/80, udp, icmp, icmp/0, esp/0xc0ffee01, 47
    #[arg(value_name = "PROTOCOL[/PORT]")]
    protocol: String,
    /// Tenant at whose interfaces it comes in
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::tenants))]
    tenant: Option<String>,
    /// Interface by which it comes in; left out: where the route to its source leads, or else the tenant's first one
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::interfaces))]
    interface: Option<String>,
    /// TCP flags that it has; left out: syn
    #[arg(long, value_name = "FLAG", value_delimiter = ',')]
    flags: Vec<String>,
    /// What it carries behind its transport header, in hexadecimal, for the parser of a tenant that has one: 30ff000000001234 is a tunnel of gtpu. 64 bytes at most
    #[arg(long, value_name = "HEX", default_value = "", hide_default_value = true, value_parser = payload)]
    payload: Bytes,
    #[command(flatten)]
    output: OutputArgs,
}

/// Explains.
pub(crate) async fn run(context: &Context, args: &ExplainArgs) -> Result<Exit, Error> {
    let request = request(args)?;
    let mut client = context.connect().await?;
    let mut answer = client.explain(request.clone()).await.doing("explain")?;
    let text = args.output.output.write(&mut answer, |answer| shown(&request, answer, context.paint))?;
    context.print(&text)?;
    Ok(Exit::Done)
}

fn request(args: &ExplainArgs) -> Result<ExplainRequest, Error> {
    let (protocol, number) = match args.protocol.split_once('/') {
        Some((protocol, number)) => (protocol, Some(number)),
        None => (&args.protocol[..], None),
    };
    let protocol = protocol.to_ascii_lowercase();
    let has_spi = ["esp", "ah", "50", "51"].contains(&&*protocol);
    let spi = number.filter(|_| has_spi).map(session_spi).transpose().map_err(Error::Usage)?;
    let number = number.filter(|_| !has_spi).map(str::parse::<u16>).transpose().map_err(|_| {
        Error::Usage(format!("{:?} is no protocol with a port; write tcp/80, icmp or icmp/8", args.protocol))
    })?;
    let is_icmp = ["icmp", "icmpv6", "1", "58"].contains(&&*protocol);
    let (source, source_port) = endpoint(&args.source)?;
    let (destination, said) = endpoint(&args.destination)?;
    let port = number.filter(|_| !is_icmp);
    if let Some((port, said)) = port.zip(said).filter(|(port, said)| port != said) {
        return Err(Error::Usage(format!("the destination's port is {said} or {port}: say one")));
    }
    Ok(ExplainRequest {
        source,
        source_port: source_port.unwrap_or_default().into(),
        destination,
        destination_port: port.or(said).unwrap_or_default().into(),
        protocol,
        tcp_flags: args.flags.clone(),
        icmp_type: number.filter(|_| is_icmp).map(u32::from),
        tenant: args.tenant.clone().unwrap_or_default(),
        interface: args.interface.clone().unwrap_or_default(),
        spi,
        payload: args.payload.0.clone(),
    })
}

/// Bytes that were said.
#[derive(Debug, Clone, Default)]
struct Bytes(Vec<u8>);

/// Two digits each.
fn payload(text: &str) -> Result<Bytes, String> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0 && digits.len() <= 128);
    let digits = digits.ok_or("write 64 bytes at most, with two hexadecimal digits each")?;
    Ok(Bytes(digits.chunks_exact(2).map(|both| (both[0] << 4 | both[1]) as u8).collect()))
}

/// "10.1.0.2:40122" as "10.1.0.2" and 40122.
fn endpoint(text: &str) -> Result<(String, Option<u16>), Error> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok((text.into(), None));
    }
    match text.parse::<SocketAddr>() {
        Ok(endpoint) => Ok((endpoint.ip().to_string(), Some(endpoint.port()))),
        Err(_) => {
            let what = match text.rsplit_once(':') {
                Some((address, port)) if address.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() => {
                    format!("{port:?} is no port; take 0 to 65535, behind an address of IPv6 in brackets")
                }
                _ => format!("{text:?} is no address; write 10.1.0.2 or 10.1.0.2:40122"),
            };
            Err(Error::Usage(what))
        }
    }
}

fn shown(request: &ExplainRequest, answer: &ExplainResponse, paint: Paint) -> String {
    let mut text = format!("in by {}: {}\n", answer.interface, verdict(request, answer, paint));
    if answer.verdict() == ExplainVerdict::Dropped && !answer.help.is_empty() {
        text += &format!("{}\n", answer.help);
    }
    let mut table = Table::new([
        Column::left("NODE"),
        Column::left("OBJECT").optional(),
        Column::left("RULE").optional(),
        Column::left("NAME").optional(),
        Column::left("FOUND"),
    ]);
    for step in &answer.steps {
        let rule = if step.rule == 0 { String::new() } else { step.rule.to_string() };
        table.row([
            (&step.node).into(),
            object(step).into(),
            rule.into(),
            (&step.rule_name).into(),
            (&step.found).into(),
        ]);
    }
    text + &table.render(paint)
}

fn object(step: &ExplainStep) -> String {
    step.object.as_ref().map(|object| format!("{} {}", object.kind().word(), object.name)).unwrap_or_default()
}

/// What becomes of it, in a line.
fn verdict(request: &ExplainRequest, answer: &ExplainResponse, paint: Paint) -> String {
    let tone = |tone, text: &str| paint.tone(tone, text).to_string();
    match answer.verdict() {
        ExplainVerdict::Dropped => tone(Tone::Bad, &format!("dropped by {}: {}", answer.node, answer.reason)),
        ExplainVerdict::Local => tone(Tone::Good, &format!("for Quiver itself{}", changed(request, answer))),
        ExplainVerdict::Forwarded | ExplainVerdict::Unspecified => {
            let to = match (&answer.next_hop[..], answer.resolved) {
                ("", _) => String::new(),
                (next, true) => format!(" to {next}"),
                (next, false) => format!(" to {next}, when that has answered"),
            };
            let said = format!("leaves by {}{to}{}", answer.out_interface, changed(request, answer));
            tone(Tone::Good, &said)
        }
    }
}

/// Source and destination as it goes on, where that isn't as it came.
fn changed(request: &ExplainRequest, answer: &ExplainResponse) -> String {
    let same = |before: &str, after: &str| before.parse::<IpAddr>().ok() == after.parse::<IpAddr>().ok();
    // Where nothing is said, quiverd has chosen the port, and a message has none; an SPI stays.
    let has_spi = request.spi.is_some();
    let port = |before: u32, after: u32| has_spi || before == 0 || before == after;
    let is_same = same(&request.source, &answer.out_source)
        && same(&request.destination, &answer.out_destination)
        && port(request.source_port, answer.out_source_port)
        && port(request.destination_port, answer.out_destination_port);
    if is_same {
        return String::new();
    }
    let end = |address: &str, port: u32| match address.parse::<IpAddr>() {
        Ok(address) if port > 0 && !has_spi => SocketAddr::new(address, port as u16).to_string(),
        _ => address.to_owned(),
    };
    format!(
        ", as {} > {}",
        end(&answer.out_source, answer.out_source_port),
        end(&answer.out_destination, answer.out_destination_port)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::{Kind, ObjectRef};

    fn asked(source: &str, destination: &str, protocol: &str) -> Result<ExplainRequest, Error> {
        request(&ExplainArgs {
            source: source.into(),
            destination: destination.into(),
            protocol: protocol.into(),
            tenant: None,
            interface: None,
            flags: Vec::new(),
            payload: payload("30ff").unwrap(),
            output: OutputArgs { output: crate::output::Form::Table },
        })
    }

    #[test]
    fn a_packet_is_said_as_sessions_are_shown() {
        let ports = |request: &ExplainRequest| (request.source_port, request.destination_port);
        let one = asked("10.1.0.2:40122", "10.2.0.2:80", "TCP").unwrap();
        assert_eq!((&*one.source, &*one.destination, &*one.protocol), ("10.1.0.2", "10.2.0.2", "tcp"));
        assert_eq!((ports(&one), &one.payload[..]), ((40122, 80), &[0x30, 0xff][..]));
        assert!(["3", "3g", &"00".repeat(65)].into_iter().all(|text| payload(text).is_err()));
        let six = asked("[fd00::2]:5", "fd00::3", "udp/53").unwrap();
        assert_eq!((&*six.source, ports(&six)), ("fd00::2", (5, 53)));
        let echo = asked("10.1.0.2", "10.2.0.2", "icmp/0").unwrap();
        assert_eq!((echo.icmp_type, ports(&echo)), (Some(0), (0, 0)));
        assert_eq!(asked("10.1.0.2", "10.2.0.2", "esp/0xc0ffee01").unwrap().spi, Some(0xc0ff_ee01));
        assert_eq!((six.spi, asked("10.1.0.2", "10.2.0.2", "esp").unwrap().spi), (None, None));
        for (source, destination, protocol, wrong) in [
            ("web", "10.2.0.2", "icmp", "\"web\" is no address"),
            ("10.1.0.2:99999", "10.2.0.2", "udp", "\"99999\" is no port"),
            ("10.1.0.2", "10.2.0.2:80", "tcp/81", "80 or 81"),
            ("10.1.0.2", "10.2.0.2", "tcp/http", "no protocol with a port"),
            ("10.1.0.2", "10.2.0.2", "ah/0", "an SPI is 1 to 4294967295"),
        ] {
            let error = asked(source, destination, protocol).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn steps_and_what_becomes_of_it() {
        let step = |node: &str, object: Option<(Kind, &str)>, rule, found: &str| ExplainStep {
            node: node.into(),
            object: object.map(|(kind, name)| ObjectRef::new(kind, name)),
            rule,
            rule_name: if rule > 0 { "guests".into() } else { String::new() },
            found: found.into(),
        };
        let request = asked("10.1.0.2:1", "10.96.0.1:80", "tcp").unwrap();
        let mut answer = ExplainResponse {
            interface: "a".into(),
            verdict: ExplainVerdict::Dropped.into(),
            node: "acl".into(),
            reason: "denied".into(),
            help: "A rule denies it.".into(),
            steps: vec![
                step("ip4-session-input", Some((Kind::Tenant, "red")), 0, "begins"),
                step("acl", Some((Kind::Acl, "web")), 3, "tenant: deny"),
            ],
            ..ExplainResponse::default()
        };
        assert_eq!(
            shown(&request, &answer, Paint::new(false)),
            [
                "in by a: dropped by acl: denied\n",
                "A rule denies it.\n",
                "NODE               OBJECT      RULE  NAME    FOUND\n",
                "ip4-session-input  tenant red                begins\n",
                "acl                acl web     3     guests  tenant: deny\n",
            ]
            .concat()
        );
        answer.verdict = ExplainVerdict::Forwarded.into();
        (answer.out_interface, answer.next_hop) = ("b".into(), "10.2.0.2".into());
        (answer.out_source, answer.out_source_port) = ("10.1.0.2".into(), 1);
        (answer.out_destination, answer.out_destination_port) = ("10.2.0.2".into(), 8080);
        let line = verdict(&request, &answer, Paint::new(false));
        assert_eq!(line, "leaves by b to 10.2.0.2, when that has answered, as 10.1.0.2:1 > 10.2.0.2:8080");
    }
}
