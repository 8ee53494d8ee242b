//! What the kernel says of a thread of ours (proc(5), `/proc/self/task/…/stat`).

use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// It runs, or would if it had a core.
    Runs,
    /// It waits in the kernel, and a signal would wake it.
    Sleeps,
    /// It waits in the kernel, and nothing wakes it but what it waits for: nor would its process end.
    Uninterruptible,
    /// A debugger or a stopping signal holds it.
    Held,
    /// It has ended.
    Gone,
}

/// What a thread does, and the processor time that it has had.
///
/// # Errors
/// Where the kernel doesn't say: no descriptor is left, for instance. That isn't to say that the thread is gone.
pub(super) fn thread_state(id: i32) -> io::Result<(ThreadState, Duration)> {
    match fs::read_to_string(format!("/proc/self/task/{id}/stat")) {
        Ok(stat) => parse(&stat, rustix::param::clock_ticks_per_second())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, stat)),
        Err(error) if says_that_it_is_gone(&error) => Ok((ThreadState::Gone, Duration::ZERO)),
        Err(error) => Err(error),
    }
}

/// A thread that ends between opening and reading is a process that isn't found.
fn says_that_it_is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// Where a thread is in the kernel, as far as that can be read: for a log, where there are no core dumps.
pub(super) fn in_the_kernel(id: i32) -> String {
    let read = |file: &str| {
        let said = fs::read_to_string(format!("/proc/self/task/{id}/{file}"));
        said.map_or_else(|error| format!("({error})"), |said| said.trim().to_owned())
    };
    format!("wchan {}, syscall {}", read("wchan"), read("syscall"))
}

fn parse(stat: &str, ticks_per_second: u64) -> Option<(ThreadState, Duration)> {
    // The second field, in parentheses, is a name, in which there may be anything. The state is the third.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let state = match *fields.first()? {
        "R" => ThreadState::Runs,
        // "I" is of threads of the kernel; "P" was, of some versions.
        "S" => ThreadState::Sleeps,
        "D" => ThreadState::Uninterruptible,
        "T" | "t" => ThreadState::Held,
        "Z" | "X" | "x" => ThreadState::Gone,
        _ => return None,
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
            ("S", Some((ThreadState::Sleeps, four))),
            ("D", Some((ThreadState::Uninterruptible, four))),
            ("t", Some((ThreadState::Held, four))),
            ("T", Some((ThreadState::Held, four))),
            ("Z", Some((ThreadState::Gone, four))),
            ("X", Some((ThreadState::Gone, four))),
            ("?", None),
        ] {
            assert_eq!(parse(&stat(said), 100), expected, "{said}");
        }
        assert_eq!(parse("", 100), None);
        assert_eq!(parse("4711 (worker-1) R 1 2", 100), None);
    }

    #[test]
    fn of_this_thread_it_says_that_it_runs() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(thread_state(own).unwrap().0, ThreadState::Runs);
        assert!(in_the_kernel(own).starts_with("wchan "), "{}", in_the_kernel(own));
    }

    /// One that can't be read may be there all the same.
    #[test]
    fn only_who_is_not_found_is_gone() {
        assert_eq!(thread_state(i32::MAX).unwrap(), (ThreadState::Gone, Duration::ZERO));
        for (errno, gone) in
            [(Errno::NOENT, true), (Errno::SRCH, true), (Errno::MFILE, false), (Errno::ACCESS, false)]
        {
            assert_eq!(says_that_it_is_gone(&errno.into()), gone, "{errno}");
        }
    }
}
