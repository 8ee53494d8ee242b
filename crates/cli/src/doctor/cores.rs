//! Cores: how many, which are isolated, and where workers would best run.

use super::{Check, Files, cpu_list};
use crate::render::number::percent;

/// What there is.
#[derive(Debug, Clone, PartialEq, Default)]
struct Cores {
    /// This process may run on these.
    allowed: Vec<u32>,
    /// The scheduler puts nothing on these by itself.
    isolated: Vec<u32>,
    /// Hyperthreads: for each allowed core those it shares its physical core with, itself included.
    siblings: Vec<Vec<u32>>,
    /// Share of cores that the cgroup allows: 1.5 are one and a half.
    quota: Option<f64>,
}

/// Looks.
pub(super) fn check(files: &Files) -> Check {
    judge(&look(files))
}

fn look(files: &Files) -> Cores {
    let list = |path: &str| cpu_list::parse(&files.read(path).unwrap_or_default());
    let status = files.read("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.map_or_else(|| list("/sys/devices/system/cpu/online"), cpu_list::parse);
    let sibling = |core: &u32| {
        let all = list(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"));
        if all.is_empty() { vec![*core] } else { all }
    };
    Cores {
        siblings: allowed.iter().map(sibling).collect(),
        isolated: list("/sys/devices/system/cpu/isolated"),
        quota: quota(files),
        allowed,
    }
}

/// What `cpu.max` of our cgroup (version 2) says: "150000 100000" is 1.5.
fn quota(files: &Files) -> Option<f64> {
    let membership = files.read("/proc/self/cgroup")?;
    let group = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let text = files.read(&format!("/sys/fs/cgroup{}/cpu.max", group.trim_end_matches('/')))?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// The best cores for workers: isolated ones if there are, else all but the first; one per physical core.
fn placement(cores: &Cores) -> Vec<u32> {
    let isolated =
        cores.allowed.iter().filter(|core| cores.isolated.contains(core)).copied().collect::<Vec<_>>();
    let first = cores.siblings.first().cloned().unwrap_or_default();
    let others = cores.allowed.iter().filter(|core| !first.contains(core)).copied().collect::<Vec<_>>();
    let candidates = match (isolated.is_empty(), others.is_empty()) {
        (false, _) => isolated,
        (true, false) => others,
        // One physical core: its second hyperthread if it has one.
        (true, true) => cores.allowed.iter().rev().take(1).copied().collect(),
    };
    let siblings = |core: u32| {
        let place = cores.allowed.iter().position(|it| *it == core);
        place.and_then(|place| cores.siblings.get(place)).map_or(&[][..], Vec::as_slice)
    };
    let mut chosen: Vec<u32> = Vec::new();
    for core in candidates {
        if !chosen.iter().any(|it| siblings(core).contains(it)) {
            chosen.push(core);
        }
    }
    chosen
}

fn judge(cores: &Cores) -> Check {
    const NAME: &str = "cores";
    let allowed = cores.allowed.len();
    let isolated = match cores.isolated.as_slice() {
        [] => "none isolated".to_owned(),
        isolated => format!("isolated: {}", cpu_list::format(isolated)),
    };
    let found = format!("{allowed} allowed ({}), {isolated}", cpu_list::format(&cores.allowed));
    let best = format!("workers would best run on {}", cpu_list::format(&placement(cores)));
    if let Some(quota) = cores.quota.filter(|quota| *quota < allowed as f64) {
        return Check::warn(
            NAME,
            format!("{found}; the cgroup allows {} of one", percent(quota)),
            "a worker that polls is stopped by the scheduler whenever the share is used up: packets are lost",
        )
        .with_remedy("take the CPU limit away, or give whole cores (CPU manager policy static)");
    }
    match allowed {
        0 => Check::warn(NAME, "unknown", "/proc/self/status says nothing about cores")
            .with_remedy("mount /proc"),
        1 => Check::warn(NAME, found, "the one worker shares its core with everything else")
            .with_remedy("use at least two cores"),
        _ if cores.isolated.is_empty() => Check::ok(
            NAME,
            found,
            format!("{best}; other processes may run there, too, which shows as rare delays"),
        )
        .with_remedy("for even delays isolate them: kernel options isolcpus= and nohz_full="),
        _ => Check::ok(NAME, found, best),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::files::machine;
    use super::*;

    /// Cores n and n+2 are hyperthreads of one.
    fn four(isolated: &[u32]) -> Cores {
        Cores {
            allowed: vec![0, 1, 2, 3],
            isolated: isolated.to_vec(),
            siblings: vec![vec![0, 2], vec![1, 3], vec![0, 2], vec![1, 3]],
            quota: None,
        }
    }

    #[test]
    fn workers_get_whole_cores_away_from_the_first() {
        assert_eq!(placement(&four(&[])), [1]);
        assert_eq!(placement(&four(&[2, 3])), [2, 3]);
        assert_eq!(placement(&four(&[1, 3])), [1]);
        let alone = |n| vec![n];
        let plain = Cores {
            allowed: vec![0, 1, 2],
            siblings: vec![alone(0), alone(1), alone(2)],
            ..Cores::default()
        };
        assert_eq!(placement(&plain), [1, 2]);
        let pair = Cores { allowed: vec![0, 1], siblings: vec![vec![0, 1]; 2], ..Cores::default() };
        assert_eq!(placement(&pair), [1]);
        let single = Cores { allowed: vec![5], siblings: vec![alone(5)], ..Cores::default() };
        assert_eq!(placement(&single), [5]);
    }

    #[test]
    fn what_the_kernel_says() {
        let (_folder, files) = machine(&[
            ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed:\t1\n"),
            ("/proc/self/cgroup", "0::/pod\n"),
            ("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
            ("/sys/devices/system/cpu/isolated", "1\n"),
        ]);
        let cores = look(&files);
        let expected = Cores {
            allowed: vec![0, 1],
            isolated: vec![1],
            siblings: vec![vec![0], vec![1]],
            quota: Some(1.5),
        };
        assert_eq!(cores, expected);
        let check = judge(&cores);
        assert_eq!(check.verdict, Verdict::Warn);
        assert_eq!(check.found, "2 allowed (0-1), isolated: 1; the cgroup allows 150 % of one");
    }

    #[test]
    fn verdicts() {
        assert_eq!(judge(&four(&[])).verdict, Verdict::Ok);
        assert_eq!(judge(&Cores { allowed: vec![0], ..Cores::default() }).verdict, Verdict::Warn);
        let (_folder, files) = machine(&[]);
        assert_eq!(judge(&look(&files)).found, "unknown");
        assert_eq!(judge(&Cores { quota: Some(4.0), ..four(&[1]) }).verdict, Verdict::Ok);
    }
}
