//! For tests: a process in which a system call is refused, as a sandbox refuses it or an older kernel.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rustix::io::Errno;

/// Whether this is a process without the system call, in which the test of this name (below `ring`) is to be run; if not, it has been run there.
pub(super) fn without(call: libc::c_long, errno: Errno, test: &str) -> bool {
    const WITHOUT: &str = "QUIVER_TEST_WITHOUT";
    if std::env::var_os(WITHOUT).is_some() {
        refuse(call, errno);
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&format!("ring::{test}"), "--exact", "--nocapture"])
        .env(WITHOUT, "1")
        .status();
    assert!(status.unwrap().success());
    false
}

/// For this thread and those that it starts, from here on.
fn refuse(call: libc::c_long, errno: Errno) {
    // Where `seccomp_data` has the system call.
    const NUMBER: u32 = 0;
    let instruction = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let answer = libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32;
    let filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, NUMBER),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, answer),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: both calls take numbers, and the second a program that lives until it returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}
