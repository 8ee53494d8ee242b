//! One thread that panics takes the whole process with it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const CHILD: &str = "QUIVERD_TEST_CRASH";
const SIGABRT: i32 = 6;

#[test]
fn a_panic_of_one_thread_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        quiverd::crash::abort_on_panic();
        let thread = std::thread::spawn(|| panic!("on purpose"));
        // Reached only if the panic was the thread's alone; the test then ends with success.
        let _ = thread.join();
        return;
    }
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this)
        .args(["--exact", "a_panic_of_one_thread_ends_the_process", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("on purpose"), "{said}");
}
