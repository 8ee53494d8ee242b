//! Which work queues are opened: the nearest, or those that are named. One that can't be had is no reason to do without the others.

use std::path::Path;
use std::sync::Arc;

use crate::dsa::hardware;
use crate::dsa::sysfs::{self, Queue};
use crate::dsa::{Device, OpenError};
use crate::near::{Nearness, wanted};
use crate::setup::SetupError;

/// Where the kernel tells of work queues.
#[derive(Debug)]
pub(crate) struct Places<'p> {
    /// [`sysfs::DEVICES`], or a tree like it.
    pub devices: &'p Path,
    /// [`sysfs::NODES`], or a tree like it.
    pub nodes: &'p Path,
    /// [`sysfs::FILES`], or a folder like it.
    pub files: &'p Path,
}

/// Devices, which of them are near to which worker, and why others aren't in use.
#[derive(Debug)]
pub(crate) struct Opened {
    pub devices: Vec<Arc<Device>>,
    pub nearness: Nearness,
    pub left_alone: Vec<SetupError>,
}

/// Opens queues by their names.
///
/// # Errors
/// [`SetupError`] where a name can't be one of a queue, or none can be had.
pub(crate) fn named(
    places: &Places<'_>,
    names: &[String],
    cores: &[usize],
    open: impl Fn(&Queue) -> Result<Arc<Device>, OpenError>,
) -> Result<Opened, SetupError> {
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(SetupError::Twice(name.clone()));
    }
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(SetupError::Name(name.clone()));
    }
    let (mut queues, mut devices, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let opened = find(places, name).and_then(|queue| Ok((open(&queue)?, queue)));
        match opened {
            Ok((device, queue)) => {
                devices.push(device);
                queues.push(queue);
            }
            Err(error) => refused.push(error),
        }
    }
    some(devices, Nearness::of(places.nodes, &queues, cores), refused)
}

/// Opens the queues that are nearest to any of the cores; in place of those that can't be had the next ones.
///
/// # Errors
/// [`SetupError`] where none can be had.
pub(crate) fn nearest(
    places: &Places<'_>,
    cores: &[usize],
    open: impl Fn(&Queue) -> Result<Arc<Device>, OpenError>,
) -> Result<Opened, SetupError> {
    let found = sysfs::discover(places.devices)?;
    let (mut candidates, mut refused) = (found.queues, Vec::new());
    let (mut queues, mut devices) = (Vec::new(), Vec::new());
    loop {
        let near = wanted(places.nodes, candidates.clone(), cores);
        let Some(queue) = near.into_iter().find(|queue| !queues.contains(queue)) else { break };
        match open(&queue) {
            Ok(device) => {
                devices.push(device);
                queues.push(queue);
            }
            Err(error) => {
                refused.push(error.into());
                candidates.retain(|other| *other != queue);
            }
        }
    }
    let mut opened = some(devices, Nearness::of(places.nodes, &queues, cores), refused)?;
    opened.left_alone.extend(found.left_alone.into_iter().map(SetupError::Queue));
    Ok(opened)
}

/// What was opened, if anything was; else why nothing was.
fn some(
    devices: Vec<Arc<Device>>,
    nearness: Nearness,
    mut left_alone: Vec<SetupError>,
) -> Result<Opened, SetupError> {
    match (devices.is_empty(), left_alone.len()) {
        (true, 1) => Err(left_alone.remove(0)),
        (true, _) => {
            let reasons = left_alone.iter().map(ToString::to_string).collect::<Vec<_>>();
            Err(SetupError::Refused(reasons.join("; ")))
        }
        _ => Ok(Opened { devices, nearness, left_alone }),
    }
}

/// Whether work queues may be named so.
fn is_name(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("wq").and_then(|rest| rest.split_once('.'));
    numbers.is_some_and(|(device, queue)| number(device) && number(queue))
}

/// The queue of a name.
fn find(places: &Places<'_>, name: &str) -> Result<Queue, SetupError> {
    if !places.devices.join(name).exists() {
        // Says it more plainly than what is missing in sysfs.
        hardware::open_file(&places.files.join(name))?;
    }
    Ok(sysfs::queue(places.devices, name)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::model::{Model, ModelOptions};

    /// Two devices on two nodes, with two queues each; core 0 and core 1 on one of these each.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for node in 0..2 {
            put(format!("devices/dsa{node}/numa_node"), &node.to_string());
            put(format!("nodes/node{node}/distance"), ["10 21", "21 10"][node]);
            put(format!("nodes/node{node}/cpu{node}/x"), "");
            for queue in 0..2 {
                for (name, value) in [
                    ("type", "user"),
                    ("state", "enabled"),
                    ("mode", "dedicated"),
                    ("size", "16"),
                    ("max_transfer_size", "2097152"),
                    ("max_batch_size", "1024"),
                ] {
                    put(format!("devices/wq{node}.{queue}/{name}"), value);
                }
            }
        }
        root
    }

    /// Opens queues of a machine, of which those named are refused.
    fn opened(
        names: &[&str],
        cores: &[usize],
        denied: &[&str],
        busy: &[&str],
    ) -> Result<(Vec<String>, Vec<String>), SetupError> {
        let root = machine();
        let at = |name: &str| root.path().join(name);
        let places = Places { devices: &at("devices"), nodes: &at("nodes"), files: &at("files") };
        let open = |queue: &Queue| {
            let path = PathBuf::from("/dev/dsa").join(&queue.name);
            if denied.contains(&queue.name.as_str()) {
                return Err(OpenError::Denied { path, standing: String::new() });
            }
            if busy.contains(&queue.name.as_str()) {
                return Err(OpenError::Busy { path });
            }
            let model = Box::new(Model::start(ModelOptions::default()).unwrap());
            Ok(Arc::new(Device::new(&queue.name, queue.limits, Duration::from_secs(1), model)))
        };
        let opened = match names {
            [] => nearest(&places, cores, open),
            names => {
                named(&places, &names.iter().map(|name| (*name).into()).collect::<Vec<_>>(), cores, open)
            }
        }?;
        let used = opened.devices.iter().map(|device| device.name().to_owned()).collect();
        Ok((used, opened.left_alone.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn a_queue_that_is_not_ours_to_open_is_left_alone_and_the_others_are_used() {
        let (used, left) = opened(&[], &[0, 1], &["wq0.0"], &["wq1.1"]).unwrap();
        assert_eq!(used, ["wq0.1", "wq1.0"]);
        assert!(left[0].contains("wq0.0: permission denied") && left[0].contains("chown"), "{left:?}");
        assert!(left[1].contains("wq1.1 is in use"), "{left:?}");
        let (used, left) = opened(&["wq0.0", "wq0.7", "wq1.0"], &[0], &["wq0.0"], &[]).unwrap();
        assert_eq!((used, left.len()), (vec!["wq1.0".to_owned()], 2), "named or found");
        assert!(left[1].contains("wq0.7"), "{left:?}");
    }

    #[test]
    fn where_the_near_ones_cannot_be_had_the_next_ones_serve() {
        let (used, left) = opened(&[], &[0], &["wq0.0", "wq0.1"], &[]).unwrap();
        assert_eq!((used, left.len()), (vec!["wq1.0".to_owned(), "wq1.1".to_owned()], 2));
        let (used, _) = opened(&[], &[0], &[], &[]).unwrap();
        assert_eq!(used, ["wq0.0", "wq0.1"], "and else not");
    }

    #[test]
    fn where_none_can_be_had_it_is_said_of_each() {
        let all = ["wq0.0", "wq0.1", "wq1.0", "wq1.1"];
        let said = opened(&[], &[0], &all[1..], &all[..1]).unwrap_err();
        assert!(matches!(said, SetupError::Refused(_)), "{said}");
        assert!(all.iter().all(|name| said.to_string().contains(name)), "{said}");
        let said = opened(&["wq0.0"], &[0], &all, &[]).unwrap_err();
        assert!(matches!(said, SetupError::Open(OpenError::Denied { .. })), "{said}");
        let said = opened(&["wq0.0", "wq0"], &[0], &[], &[]).unwrap_err();
        assert!(matches!(&said, SetupError::Name(name) if name == "wq0"), "a mistake stays one: {said}");
    }
}
