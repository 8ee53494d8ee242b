"""The attack programs of tests/attacks: builds them and runs them as an unprivileged process of a pod."""

import contextlib
import fcntl
import re
import signal

from .process import ROOT, Process, eventually, run

NOBODY = 65534
_OUTPUT = ROOT / "target" / "attacks"


def program(name):
    """Path of an attack program, which is built where it is out of date."""
    _OUTPUT.mkdir(parents=True, exist_ok=True)
    with open(_OUTPUT / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("make", "-s", "-C", ROOT / "tests" / "attacks", f"OUT={_OUTPUT}")
    return _OUTPUT / name


def unprivileged(*capabilities):
    """Words of a command that runs another one as nobody, with these capabilities only (`net_raw`)."""
    kept = [f"+{capability}" for capability in capabilities]
    return (
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
        f"--bounding-set={','.join(['-all', *kept])}", f"--inh-caps={','.join(['-all', *kept])}",
        f"--ambient-caps={','.join(['-all', *kept])}",
    )  # fmt: skip


@contextlib.contextmanager
def attacking(pod, name, *arguments, capabilities=()):
    """An attack program in a pod, set up; yields the process. It ends with this."""
    words = ("ip", "netns", "exec", pod.name, *unprivileged(*capabilities), "/proc/self/fd/0", *arguments)
    # By its descriptor: nobody may not be allowed to enter the directory of the checkout.
    with open(program(name), "rb") as executable, Process(*words, stdin=executable) as process:
        until_ready(process, name)
        try:
            yield process
        finally:
            process.signal(signal.SIGTERM)
            # Thousands of packet sockets take their time to close.
            process.wait()


def until_ready(process, name):
    """Waits until a program of tests/attacks is set up."""
    ready = lambda: "ready" in process.output() or not process.alive()
    eventually(ready, lambda: f"{name} is ready\n{process.output()}", timeout=120)
    assert process.alive(), f"{name} ended: {process.output()}"


def allowed(process):
    """The intensity that the kernel allowed, as an attack program reports it."""
    return int(re.search(r"ready (\d+)", process.output())[1])
