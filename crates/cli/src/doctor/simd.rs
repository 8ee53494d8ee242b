//! Which instruction set the hot loops will use.

use super::{Check, Files};

/// Flags in `/proc/cpuinfo` that a tier needs, the best tier first. "abm" is how the kernel writes LZCNT.
const TIERS: [(&str, &[&str]); 2] = [
    (
        "avx512",
        &["avx512f", "avx512bw", "avx512vl", "avx512dq", "avx2", "bmi1", "bmi2", "abm", "fma", "movbe"],
    ),
    ("avx2", &["avx2", "bmi1", "bmi2", "abm", "popcnt", "fma", "movbe"]),
];

/// Looks.
pub(super) fn check(files: &Files) -> Check {
    judge(&files.read("/proc/cpuinfo").unwrap_or_default())
}

fn judge(cpuinfo: &str) -> Check {
    const NAME: &str = "simd";
    let field = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|it| it.1.trim())
    };
    let flags = field("flags").unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    let model = field("model name").unwrap_or("unknown processor");
    let tier = TIERS.iter().find(|(_, needs)| needs.iter().all(|flag| flags.contains(flag)));
    match tier {
        Some((tier, _)) => Check::ok(NAME, format!("{tier} ({model})"), "hot loops are compiled for it"),
        // On other architectures there is one tier, the compiler's.
        None if flags.is_empty() => {
            Check::ok(NAME, format!("scalar ({model})"), "hot loops are what the compiler makes of them")
        }
        None => Check::warn(NAME, format!("scalar ({model})"), "hot loops do one packet at a time")
            .with_remedy("in a virtual machine pass the processor through (-cpu host)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const V3: &str = "fpu avx2 bmi1 bmi2 abm popcnt fma movbe";

    #[test]
    fn tiers() {
        let cpu = |flags: &str| {
            format!("processor\t: 0\nmodel name\t: Model X\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
        };
        let found = |flags: &str| judge(&cpu(flags));
        assert_eq!(found(&format!("{V3} avx512f avx512bw avx512vl avx512dq")).found, "avx512 (Model X)");
        assert_eq!(found(&format!("{V3} avx512f avx512bw avx512vl")).found, "avx2 (Model X)");
        assert_eq!(found(V3).found, "avx2 (Model X)");
        assert_eq!(found("fpu sse2").verdict, Verdict::Warn);
        assert_eq!(judge("processor\t: 0\nFeatures\t: fp asimd\n").verdict, Verdict::Ok);
    }
}
