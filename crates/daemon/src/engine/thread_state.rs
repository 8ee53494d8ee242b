//! What the kernel says of a thread of ours (proc(5), `/proc/self/task/…/stat`).

use std::fs;
use std::time::Duration;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// It runs, or would if it had a core.
    Runs,
    /// It waits in the kernel, whether or not a signal would wake it.
    Waits,
    /// A debugger or a stopping signal holds it.
    Held,
}

/// What a thread does, and the processor time that it has had; `None` where it is gone.
pub(super) fn thread_state(id: i32) -> Option<(ThreadState, Duration)> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    parse(&stat, rustix::param::clock_ticks_per_second())
}

fn parse(stat: &str, ticks_per_second: u64) -> Option<(ThreadState, Duration)> {
    // The second field, in parentheses, is a name, in which there may be anything. The state is the third.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let state = match *fields.first()? {
        "R" => ThreadState::Runs,
        "T" | "t" => ThreadState::Held,
        // It has ended.
        "Z" | "X" | "x" => return None,
        _ => ThreadState::Waits,
    };
    // Fields 14 and 15: time in its own code, and in the kernel for it.
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let own = ticks(11)?.saturating_add(ticks(12)?);
    Some((state, Duration::from_secs_f64(own as f64 / ticks_per_second.max(1) as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has written them.
    #[test]
    fn states_and_times_are_read() {
        let stat = |state: &str| {
            format!(
                "4711 (worker-1 (x) R) {state} 1 4711 4711 0 -1 4194368 99 0 0 0 250 150 0 0 20 0 9 0 12345 1000 200"
            )
        };
        let four = Duration::from_secs(4);
        for (said, expected) in [
            ("R", Some((ThreadState::Runs, four))),
            ("S", Some((ThreadState::Waits, four))),
            ("D", Some((ThreadState::Waits, four))),
            ("t", Some((ThreadState::Held, four))),
            ("T", Some((ThreadState::Held, four))),
            ("Z", None),
        ] {
            assert_eq!(parse(&stat(said), 100), expected, "{said}");
        }
        assert_eq!(parse("", 100), None);
        assert_eq!(parse("4711 (worker-1) R 1 2", 100), None);
    }

    #[test]
    fn of_this_thread_it_says_that_it_runs() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(thread_state(own).map(|(state, _)| state), Some(ThreadState::Runs));
        assert_eq!(thread_state(i32::MAX), None);
    }
}
