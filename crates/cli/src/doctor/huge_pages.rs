//! Huge pages: how many are free, on which NUMA node, and whether we may have one.

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use super::{Check, Files};
use crate::render::number::memory;

/// Size of the pages quiverd takes, in bytes.
const PAGE: u64 = 2 << 20;

/// Pages of one size on one NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pool {
    node: String,
    /// Bytes per page.
    size: u64,
    free: u64,
    total: u64,
}

/// Looks and tries.
pub(super) fn check(files: &Files) -> Check {
    judge(&pools(files), probe())
}

/// All pools that exist, by node and size.
fn pools(files: &Files) -> Vec<Pool> {
    const NODES: &str = "/sys/devices/system/node";
    let mut pools = Vec::new();
    let nodes = files.list(NODES);
    let nodes = nodes.iter().filter(|name| name.starts_with("node"));
    let mut folders =
        nodes.map(|node| (node.clone(), format!("{NODES}/{node}/hugepages"))).collect::<Vec<_>>();
    if folders.is_empty() {
        // Kernels without NUMA.
        folders.push(("node0".into(), "/sys/kernel/mm/hugepages".into()));
    }
    for (node, folder) in folders {
        for name in files.list(&folder) {
            let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
            let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) else { continue };
            let count = |file: &str| {
                files.read(&format!("{folder}/{name}/{file}")).and_then(|text| text.parse().ok()).unwrap_or(0)
            };
            let (free, total) = (count("free_hugepages"), count("nr_hugepages"));
            pools.push(Pool { node: node.clone(), size: kib << 10, free, total });
        }
    }
    pools
}

/// Takes one page and gives it back. A container may see free pages that its cgroup doesn't allow; only this tells.
fn probe() -> Result<(), String> {
    let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB | MemfdFlags::CLOEXEC;
    memfd_create("quiver-doctor", flags)
        .and_then(|file| fallocate(file, FallocateFlags::empty(), 0, PAGE))
        .map_err(|error| error.to_string())
}

fn judge(pools: &[Pool], probe: Result<(), String>) -> Check {
    const NAME: &str = "huge pages";
    let slower = "quiverd works with ordinary pages, with more TLB misses: some per cent slower";
    let list = |pools: Vec<&Pool>| {
        let one = |pool: &&Pool| {
            format!("{} of {} free x {} on {}", pool.free, pool.total, memory(pool.size), pool.node)
        };
        pools.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let reserved = pools.iter().filter(|pool| pool.total > 0).collect::<Vec<_>>();
    let free = pools.iter().filter(|pool| pool.size == PAGE).map(|pool| pool.free).sum::<u64>();
    match probe {
        Ok(()) => Check::ok(NAME, list(reserved), "memory of memif clients will stand on huge pages"),
        Err(_) if reserved.is_empty() => Check::warn(NAME, "none reserved", slower).with_remedy(
            "sysctl vm.nr_hugepages=256; to keep it: echo vm.nr_hugepages=256 > /etc/sysctl.d/80-quiver.conf",
        ),
        Err(_) if free == 0 => Check::warn(NAME, list(reserved), slower)
            .with_remedy("others use all pages of 2 MiB; reserve more: sysctl vm.nr_hugepages=512"),
        Err(error) => Check::warn(NAME, format!("{}, but taking one: {error}", list(reserved)), slower)
            .with_remedy("the cgroup allows none: give the container a limit for hugepages-2Mi"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::files::machine;
    use super::*;

    const FOLDER: &str = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB";

    fn denied() -> Result<(), String> {
        Err("Cannot allocate memory (os error 12)".into())
    }

    #[test]
    fn pages_are_found_with_their_node() {
        let (_folder, files) = machine(&[
            (&format!("{FOLDER}/free_hugepages"), "60\n"),
            (&format!("{FOLDER}/nr_hugepages"), "64\n"),
            ("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("/sys/devices/system/node/online", "0-1\n"),
        ]);
        let pools = pools(&files);
        let sizes = pools.iter().map(|pool| (pool.node.as_str(), pool.size, pool.free)).collect::<Vec<_>>();
        assert_eq!(sizes, [("node1", 1 << 30, 0), ("node1", 2 << 20, 60)]);
        let check = judge(&pools, Ok(()));
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Ok, "60 of 64 free x 2 MiB on node1"));
    }

    #[test]
    fn a_kernel_without_numa() {
        let (_folder, files) = machine(&[("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8")]);
        let expected = Pool { node: "node0".into(), size: PAGE, free: 0, total: 8 };
        assert_eq!(pools(&files), [expected]);
    }

    #[test]
    fn none_used_up_and_not_allowed_are_told_apart() {
        let pool = |free, total| Pool { node: "node0".into(), size: PAGE, free, total };
        let remedy = |pools: &[Pool]| {
            let check = judge(pools, denied());
            assert_eq!(check.verdict, Verdict::Warn);
            check.remedy
        };
        assert!(remedy(&[]).contains("nr_hugepages=256"));
        assert!(remedy(&[pool(0, 64)]).contains("others use all"));
        assert!(remedy(&[pool(64, 64)]).contains("cgroup"));
    }
}
