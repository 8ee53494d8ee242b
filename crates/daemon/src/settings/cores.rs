//! Which worker runs on which core.

use std::collections::BTreeSet;

use super::{SettingsError, Workers};

/// Numbers of the cores this process may use, ascending.
///
/// # Errors
/// [`SettingsError::Cores`] if the system doesn't say.
pub fn available_cores() -> Result<Vec<usize>, SettingsError> {
    let set = rustix::thread::sched_getaffinity(None).map_err(|error| SettingsError::Cores(error.into()))?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// The core of each worker, of those that are `available`. Where nothing is said the highest ones are taken: the
/// kernel likes to do its own work on the lowest.
///
/// # Errors
/// [`SettingsError`] if there are too few cores, or those named aren't ours.
pub fn place_workers(workers: &Workers, available: &[usize]) -> Result<Vec<usize>, SettingsError> {
    if workers.cores.is_empty() {
        let count = workers.count.unwrap_or(1);
        if count == 0 {
            return Err(SettingsError::NoWorkers);
        }
        let first = available.len().checked_sub(count).ok_or_else(|| SettingsError::TooManyWorkers {
            asked: count,
            available: available.len(),
            cores: ranges(available),
        })?;
        return Ok(available.get(first..).unwrap_or_default().to_vec());
    }
    let mut seen = BTreeSet::new();
    for core in &workers.cores {
        if !available.contains(core) {
            return Err(SettingsError::NoSuchCore { core: *core, cores: ranges(available) });
        }
        if !seen.insert(core) {
            return Err(SettingsError::CoreTwice { core: *core });
        }
    }
    match workers.count {
        Some(count) if count != workers.cores.len() => {
            Err(SettingsError::CountAndCores { count, cores: workers.cores.len() })
        }
        _ => Ok(workers.cores.clone()),
    }
}

/// Keeps the calling thread, and those that it starts, off the workers' cores, where others are left. What a pod makes the kernel do in a thread of ours then
/// takes no worker's time.
///
/// # Errors
/// [`SettingsError::Cores`] if the system refuses.
pub fn leave_to_workers(workers: &[usize], available: &[usize]) -> Result<(), SettingsError> {
    let mut set = rustix::thread::CpuSet::new();
    available.iter().filter(|core| !workers.contains(core)).for_each(|core| set.set(*core));
    if set.count() == 0 {
        return Ok(());
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| SettingsError::Cores(error.into()))
}

/// "0-3,8" for ascending numbers.
fn ranges(cores: &[usize]) -> String {
    let mut ranges = Vec::<(usize, usize)>::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: Option<usize>, cores: &[usize]) -> Workers {
        Workers { count, cores: cores.to_vec(), ..Workers::default() }
    }

    #[test]
    fn the_highest_cores_are_taken() {
        let available = [0, 1, 2, 3, 8];
        assert_eq!(place_workers(&workers(None, &[]), &available).unwrap(), [8]);
        assert_eq!(place_workers(&workers(Some(2), &[]), &available).unwrap(), [3, 8]);
        assert_eq!(place_workers(&workers(Some(5), &[]), &available).unwrap(), available);
        assert_eq!(place_workers(&workers(None, &[2, 1]), &available).unwrap(), [2, 1]);
    }

    #[test]
    fn each_mistake_says_what_there_is() {
        let available = [0, 1, 2, 3, 8];
        for (asked, parts) in [
            (workers(Some(6), &[]), &["6", "5 cores", "0-3,8"][..]),
            (workers(Some(0), &[]), &["at least 1"]),
            (workers(None, &[4]), &["core 4", "0-3,8"]),
            (workers(None, &[1, 1]), &["core 1 twice"]),
            (workers(Some(3), &[1, 2]), &["count is 3", "names 2"]),
        ] {
            let error = place_workers(&asked, &available).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing in: {error}");
            }
        }
    }

    #[test]
    fn this_machine_has_cores() {
        let cores = available_cores().unwrap();
        assert!(!cores.is_empty() && cores.is_sorted());
    }
}
