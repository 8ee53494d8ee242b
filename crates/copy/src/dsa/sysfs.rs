//! Which work queues there are.
//!
//! `/sys/bus/dsa/devices` has `dsaX` (attribute `numa_node`) and `wqX.Y` (attributes `type`, `state`, `mode`, `size`,
//! `max_transfer_size`, `max_batch_size`, `block_on_fault`, `name`), as links to folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Limits, Mode};

/// Where the kernel tells of devices and queues.
pub const DEVICES: &str = "/sys/bus/dsa/devices";
/// Where the kernel tells how far NUMA nodes are from each other.
pub const NODES: &str = "/sys/devices/system/node";
/// Where queues are opened.
pub const FILES: &str = "/dev/dsa";

/// A work queue as sysfs describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// "wq0.1".
    pub name: String,
    /// NUMA node of its device; `None`: it has none.
    pub node: Option<u32>,
    /// What it can do.
    pub limits: Limits,
}

/// Why a queue is of no use.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The driver isn't there.
    #[error(
        "this machine has no DSA, or the driver for it isn't loaded: {path} doesn't exist (`modprobe idxd`, then configure work \
         queues with accel-config: see docs/copy-engines.md), or set copy.engine to \"cpu\""
    )]
    NoDriver {
        /// What would be there.
        path: PathBuf,
    },
    /// No queue of those that there are is for programs.
    #[error(
        "no work queue is enabled for programs ({seen}): configure one (`accel-config config-engine dsa0/engine0.0 \
         --group-id=0`, `accel-config config-wq dsa0/wq0.0 --group-id=0 --type=user --driver-name=user \
         --mode=dedicated --wq-size=16 --name=quiver`, `accel-config enable-device dsa0`, `accel-config enable-wq dsa0/wq0.0`)"
    )]
    NoQueue {
        /// What there is.
        seen: String,
    },
    /// This one isn't.
    #[error(
        "work queue {name} is of type {kind:?} and {state}: it must be of type \"user\" and enabled (`accel-config config-wq … \
         --type=user --driver-name=user`, `accel-config enable-wq …/{name}`)"
    )]
    NotUsable {
        /// Which.
        name: String,
        /// Its type.
        kind: String,
        /// Its state.
        state: String,
    },
    /// An attribute makes no sense.
    #[error("{path}: {reason}")]
    Attribute {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A folder can't be read.
    #[error("can't read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn attribute(folder: &Path, name: &str) -> Result<String, QueueError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(QueueError::Attribute { path, reason: error.to_string() }),
    }
}

fn number<T: std::str::FromStr>(folder: &Path, name: &str) -> Result<T, QueueError> {
    let text = attribute(folder, name)?;
    text.parse().map_err(|_| QueueError::Attribute {
        path: folder.join(name),
        reason: format!("{text:?} is no number that makes sense there"),
    })
}

/// The queue of that name.
///
/// # Errors
/// [`QueueError`] where it isn't enabled for programs, or not understood. What isn't there at all is an attribute that can't be read.
pub fn queue(devices: &Path, name: &str) -> Result<Queue, QueueError> {
    let folder = devices.join(name);
    let (kind, state) = (attribute(&folder, "type")?, attribute(&folder, "state")?);
    if kind != "user" || state != "enabled" {
        return Err(QueueError::NotUsable { name: name.to_owned(), kind, state });
    }
    let mode = match attribute(&folder, "mode")?.as_str() {
        "dedicated" => Mode::Dedicated,
        "shared" => Mode::Shared,
        other => {
            let reason = format!("{other:?} is neither \"dedicated\" nor \"shared\"");
            return Err(QueueError::Attribute { path: folder.join("mode"), reason });
        }
    };
    let limits = Limits {
        mode,
        size: number(&folder, "size")?,
        max_batch: number(&folder, "max_batch_size")?,
        max_transfer: number(&folder, "max_transfer_size")?,
        // Older drivers don't have it, nor do devices that can't.
        block_on_fault: number::<u8>(&folder, "block_on_fault").is_ok_and(|flag| flag == 1),
    };
    if limits.size == 0 {
        return Err(QueueError::Attribute { path: folder.join("size"), reason: "it holds nothing".into() });
    }
    let device =
        name.strip_prefix("wq").and_then(|rest| rest.split_once('.')).map_or("", |(device, _)| device);
    let node = number::<i32>(&devices.join(format!("dsa{device}")), "numa_node")?;
    Ok(Queue { name: name.to_owned(), node: u32::try_from(node).ok(), limits })
}

/// The queues of a machine.
#[derive(Debug, Default)]
pub struct Discovered {
    /// Those that programs can use, by name.
    pub queues: Vec<Queue>,
    /// Why others, which look as if programs could, are left alone: sysfs says of them what can't be understood.
    pub left_alone: Vec<QueueError>,
}

/// All queues that programs can use.
///
/// # Errors
/// [`QueueError::NoDriver`], [`QueueError::Read`], or [`QueueError::NoQueue`], which says what there is instead.
pub fn discover(devices: &Path) -> Result<Discovered, QueueError> {
    let entries = match fs::read_dir(devices) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(QueueError::NoDriver { path: devices.to_owned() });
        }
        Err(source) => return Err(QueueError::Read { path: devices.to_owned(), source }),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names = names.filter(|name| name.starts_with("wq")).collect::<Vec<_>>();
    names.sort();
    let (mut found, mut seen) = (Discovered::default(), Vec::new());
    for name in names {
        match queue(devices, &name) {
            Ok(queue) => found.queues.push(queue),
            Err(QueueError::NotUsable { kind, state, .. }) => seen.push(format!("{name}: {kind}, {state}")),
            Err(error) => found.left_alone.push(error),
        }
    }
    if found.queues.is_empty() {
        seen.extend(found.left_alone.iter().map(ToString::to_string));
        let seen = if seen.is_empty() { "there is none at all".into() } else { seen.join("; ") };
        return Err(QueueError::NoQueue { seen });
    }
    Ok(found)
}

/// Those of the queues that are nearest to a NUMA node, and all of them where nothing is known of distances.
#[must_use]
pub fn nearest(nodes: &Path, queues: Vec<Queue>, node: Option<u32>) -> Vec<Queue> {
    let distances = node.and_then(|node| fs::read_to_string(nodes.join(format!("node{node}/distance"))).ok());
    let distances: Vec<u32> =
        distances.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // One for each node that is online, in order: numbers may be missing.
    let online = online(nodes);
    let distance = |queue: &Queue| -> u32 {
        let at = queue.node.and_then(|node| online.iter().position(|online| *online == node));
        at.and_then(|at| distances.get(at)).copied().unwrap_or(if queue.node == node { 0 } else { u32::MAX })
    };
    let least = queues.iter().map(distance).min();
    queues.into_iter().filter(|queue| Some(distance(queue)) == least).collect()
}

/// The NUMA nodes that are online, in order.
fn online(nodes: &Path) -> Vec<u32> {
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<u32> = names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// The NUMA node of a core.
#[must_use]
pub fn node_of(nodes: &Path, core: usize) -> Option<u32> {
    let has = |node: &u32| nodes.join(format!("node{node}/cpu{core}")).exists();
    online(nodes).into_iter().find(has)
}
