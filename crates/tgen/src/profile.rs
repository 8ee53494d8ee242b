//! Runs from a TOML file. See `docs/tgen.md`.

use crate::link::{InterfaceSpec, Kind, MemifSpec};
use crate::options::WAIT;
use crate::plan::{Arrival, Check, Content, Interfaces, Plan, Stream};
use crate::stateless::{Layer, Rate, Size};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Why a profile can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Can't be read.
    #[error("profile {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No TOML, an unknown field, or a value that isn't what the field holds.
    #[error("profile {path}: {source}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// Fields that don't go together.
    #[error("profile {path}: {what}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Which table.
        what: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seconds: Option<f64>,
    #[serde(default)]
    check: Check,
    seed: Option<u64>,
    #[serde(default)]
    full: bool,
    #[serde(default)]
    fcs: bool,
    max_late: Option<f64>,
    #[serde(default = "half")]
    drain: f64,
    #[serde(default = "wait")]
    wait: f64,
    #[serde(default)]
    interface: Vec<InterfaceTable>,
    r#loop: Option<LoopTable>,
    #[serde(default)]
    stream: Vec<StreamTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    name: String,
    memif: Option<MemifSpec>,
    packet: Option<DeviceTable>,
    tap: Option<DeviceTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    device: String,
    netns: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopTable {
    #[serde(default = "one16")]
    queues: u16,
    #[serde(default = "ring")]
    ring_size: u32,
    #[serde(default = "buffer")]
    buffer_size: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamTable {
    name: Option<String>,
    tx: String,
    rx: Option<String>,
    queue: Option<usize>,
    stack: Option<Vec<Layer>>,
    size: Option<Size>,
    pcap: Option<PathBuf>,
    #[serde(default)]
    timing: Timing,
    repeat: Option<u64>,
    #[serde(default)]
    rate: Rate,
    #[serde(default)]
    count: u64,
    #[serde(default)]
    latency: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Timing {
    #[default]
    Rate,
    Original,
}

const fn half() -> f64 {
    0.5
}

const fn wait() -> f64 {
    WAIT
}

const fn one16() -> u16 {
    1
}

const fn ring() -> u32 {
    1024
}

const fn buffer() -> u32 {
    2048
}

/// Reads a profile.
///
/// # Errors
/// [`ProfileError`].
pub fn read(path: &Path) -> Result<Plan, ProfileError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ProfileError::Read { path: path.into(), source })?;
    parse(path, &text)
}

/// Reads the text of a profile; `path` is for messages, and where relative paths in it start.
///
/// # Errors
/// [`ProfileError::Syntax`], [`ProfileError::Content`].
pub fn parse(path: &Path, text: &str) -> Result<Plan, ProfileError> {
    let file: File = toml::from_str(text)
        .map_err(|source| ProfileError::Syntax { path: path.into(), source: Box::new(source) })?;
    let wrong = |what: String, reason: String| ProfileError::Content { path: path.into(), what, reason };
    let mut names: Vec<String> = Vec::new();
    let interfaces = match file.r#loop {
        Some(table) if file.interface.is_empty() => {
            names.extend(["loop-client".into(), "loop-server".into()]);
            Interfaces::Loop(MemifSpec::buffers(table.queues, table.ring_size, table.buffer_size))
        }
        Some(_) => {
            return Err(wrong("loop".into(), "takes no [[interface]] beside it: it has its own two".into()));
        }
        None => {
            let mut all = Vec::new();
            for table in file.interface {
                let what = format!("interface {:?}", table.name);
                if names.contains(&table.name) {
                    return Err(wrong(what, "is there twice: give each its own name".into()));
                }
                names.push(table.name.clone());
                let name = table.name.clone();
                all.push(InterfaceSpec { name, kind: kind(table).map_err(|reason| wrong(what, reason))? });
            }
            Interfaces::Named(all)
        }
    };
    if names.is_empty() {
        return Err(wrong("interface".into(), "there is none: add an [[interface]], or [loop]".into()));
    }
    if file.stream.is_empty() {
        return Err(wrong("stream".into(), "there is none: add a [[stream]]".into()));
    }
    let late = file.max_late.unwrap_or_default();
    for (field, value) in [
        ("seconds", file.seconds.unwrap_or_default()),
        ("drain", file.drain),
        ("wait", file.wait),
        ("max_late", late),
    ] {
        if !(0.0..1e9).contains(&value) {
            return Err(wrong(field.into(), format!("is {value}: it must be 0 to 1000000000")));
        }
    }
    let mut streams: Vec<Stream> = Vec::new();
    for (n, table) in file.stream.into_iter().enumerate() {
        let name = table.name.clone().unwrap_or_else(|| format!("stream-{n}"));
        let what = format!("stream {name:?}");
        if streams.iter().any(|stream| stream.name == name) {
            return Err(wrong(what, "is there twice: give each its own name".into()));
        }
        let number = |field: &str, of: &str| {
            names.iter().position(|name| name == of).ok_or_else(|| {
                let reason = format!("{field} = {of:?} is no interface: there are {}", names.join(", "));
                wrong(what.clone(), reason)
            })
        };
        let tx = number("tx", &table.tx)?;
        let arrival = match &table.rx {
            Some(rx) => Arrival::At(number("rx", rx)?),
            None if names.len() == 1 => Arrival::At(tx),
            None => Arrival::NotAt(tx),
        };
        streams.push(stream(path, name, tx, arrival, table).map_err(|reason| wrong(what, reason))?);
    }
    let (seed, run) = Plan::seed_and_run(file.seed);
    Plan {
        interfaces,
        seconds: Plan::seconds(file.seconds, &streams),
        check: file.check,
        seed,
        run,
        full: file.full,
        fcs: file.fcs,
        max_late: file.max_late,
        drain: file.drain,
        wait: file.wait,
        streams,
    }
    .checked()
    .map_err(|reason| wrong("check".into(), reason))
}

fn kind(table: InterfaceTable) -> Result<Kind, String> {
    match (table.memif, table.packet, table.tap) {
        (Some(memif), None, None) => Ok(Kind::Memif(memif)),
        (None, Some(packet), None) => Ok(Kind::Packet { device: packet.device, netns: packet.netns }),
        (None, None, Some(tap)) => Ok(Kind::Tap { device: tap.device, netns: tap.netns }),
        _ => Err("give one of memif = { socket = … }, packet = { device = … }, tap = { device = … }".into()),
    }
}

fn stream(
    profile: &Path,
    name: String,
    tx: usize,
    arrival: Arrival,
    table: StreamTable,
) -> Result<Stream, String> {
    let content = match (table.stack, table.pcap) {
        (Some(stack), None) => {
            if table.repeat.is_some() || table.timing == Timing::Original {
                return Err(
                    "repeat and timing are for streams with a pcap: leave them out, or use count and rate"
                        .into(),
                );
            }
            let size =
                table.size.ok_or("has no size: give bytes (64), [64, 512], \"64-1518\" or \"imix\"")?;
            Content::Made { stack, size }
        }
        (None, Some(pcap)) => {
            if table.size.is_some() || table.latency {
                return Err(
                    "size and latency are for streams with a stack: captures are sent as they are".into()
                );
            }
            let path = profile.parent().map_or_else(|| pcap.clone(), |folder| folder.join(&pcap));
            let original_timing = table.timing == Timing::Original;
            if original_timing && table.rate != Rate::Max {
                return Err("has a rate and timing = \"original\": leave out one of them".into());
            }
            Content::Capture { path, original_timing, repeat: table.repeat.unwrap_or(1) }
        }
        _ => return Err("give either a stack, or a pcap".into()),
    };
    Ok(Stream {
        name,
        tx,
        arrival,
        queue: table.queue,
        content,
        rate: table.rate,
        count: table.count,
        latency: table.latency,
    })
}
