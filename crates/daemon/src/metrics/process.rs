//! What runs here, and what it has of the machine.

use super::exposition::{Exposition, Kind};
use crate::dataplane::Inspect;
use crate::version;

/// Version, age, memory and files. Names that begin with `process_` are those of Prometheus's own client libraries.
pub(super) fn collect(inspect: &dyn Inspect, out: &mut Exposition) {
    let engine = inspect.engine();
    out.metric("quiver_build_info", Kind::Gauge, "What runs here; always 1.").sample(
        &[("version", version::VERSION), ("commit", version::COMMIT), ("simd_tier", &engine.simd_tier)],
        1,
    );
    out.metric("quiver_uptime_seconds", Kind::Gauge, "Seconds since start.")
        .sample(&[], version::uptime().as_secs_f64());
    if let Some(heap) = memory::heap::usage() {
        let help = "The heap: in use, free but kept for later, and reserved in large pieces that may not have been touched yet.";
        let mut metric = out.metric("quiver_heap_bytes", Kind::Gauge, help);
        for (state, bytes) in [("used", heap.used), ("free", heap.free), ("reserved", heap.mapped)] {
            metric.sample(&[("state", state)], bytes);
        }
    }
    if let Some(bytes) = resident() {
        out.metric(
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Memory that the process really has, files' and shared included.",
        )
        .sample(&[], bytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the list itself.
        out.metric(
            "process_open_fds",
            Kind::Gauge,
            "Files, sockets and pieces of shared memory that are open.",
        )
        .sample(&[], files.count().saturating_sub(1));
    }
}

/// Bytes of memory that the process has got from the kernel; `proc_pid_status(5)`.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())?;
    Some(kib << 10)
}
