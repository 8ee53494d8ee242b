//! Regions of memif peers whose file is held: a thread waits for each, which the kernel doesn't end before the file is let go. So the process
//! can't end either, not even by SIGKILL.

use std::time::{Duration, Instant, SystemTime};

use memif::io::{HeldRegion, held_regions};

/// To map a region, or to seal it, takes milliseconds where nobody holds its file.
const HANGS: Duration = Duration::from_secs(1);
/// How many are named in one line of the log.
const NAMED: usize = 8;

/// Peer's process, where it is known, and since when, of those of an interface that hang.
pub(crate) fn regions(interface: &str) -> impl Iterator<Item = (Option<u32>, SystemTime)> {
    let of_it = held_regions(HANGS).into_iter().filter(move |region| region.name == interface);
    of_it.map(|region| (region.peer, region.since))
}

/// Says whose regions keep the process from ending, once all else has ended.
pub(crate) fn say_what_keeps_us() {
    let until = Instant::now() + HANGS;
    while !held_regions(Duration::ZERO).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let held = held_regions(Duration::ZERO);
    if !held.is_empty() {
        tracing::error!(
            regions = list(&held),
            "all is stopped, but the process can't end before the files of these memif regions are let go: end who holds them, their peers as a rule"
        );
    }
}

/// "pod-a of process 4711, pod-b of a process that isn't known, and 3 more".
fn list(held: &[HeldRegion]) -> String {
    let named = held.iter().take(NAMED).map(|HeldRegion { name, peer, .. }| match peer {
        Some(pid) => format!("{name} of process {pid}"),
        None => format!("{name} of a process that isn't known"),
    });
    let more = held.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_some_and_counts_the_others() {
        let region = |n: u32| HeldRegion {
            interface: format!("@pod-{n} id 0"),
            name: format!("pod-{n}"),
            peer: (n > 0).then_some(4710 + n),
            since: SystemTime::now(),
        };
        let held: Vec<_> = (0..11).map(region).collect();
        assert_eq!(list(&held[..2]), "pod-0 of a process that isn't known, pod-1 of process 4711");
        assert!(list(&held).ends_with("pod-7 of process 4717, and 3 more"), "{}", list(&held));
    }
}
