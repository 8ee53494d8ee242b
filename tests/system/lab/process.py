"""Processes: run to their end, or in the background with a guaranteed end."""

import os
import pathlib
import subprocess
import tempfile
import time

# Seconds after which a program hangs: far more than any takes, also where the machine has other things to do.
HANGS = 180
ROOT = pathlib.Path(__file__).resolve().parents[3]


def tool(name):
    """Path of one of our programs: from $QUIVER_BIN, else from where cargo puts releases."""
    directory = pathlib.Path(os.environ.get("QUIVER_BIN") or ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release")
    path = directory / name
    assert path.exists(), f"{path} is missing: build it with `make build`, or let QUIVER_BIN name its directory"
    return str(path)


def run(*command, check=True, timeout=HANGS, stdin=None):
    """Runs a command to its end. A failure shows the command and all it printed, unless `check` is False."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=stdin, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done


def eventually(condition, what, timeout=20.0, interval=0.05):
    """Waits until `condition()` is true and returns its value: a limit against hanging, no measurement."""
    patience = Patience(timeout)
    while True:
        value = condition()
        if value:
            return value
        assert patience.left() > 0, f"after {timeout} s it still isn't so: {what() if callable(what) else what}"
        time.sleep(interval)


class Patience:
    """Time to wait, of which only what we were awake for counts: where the whole machine stood still, nobody else worked either."""

    LONGEST = 1.0

    def __init__(self, seconds):
        self._left, self._before = seconds, time.monotonic()

    def left(self):
        """Seconds that are left; to be asked again and again."""
        now = time.monotonic()
        self._left -= min(now - self._before, self.LONGEST)
        self._before = now
        return self._left


class Process:
    """A command in the background. `with` ends it; what it printed is in `output()`."""

    def __init__(self, *command, stdin=None):
        self.command = [str(word) for word in command]
        self._file = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (closed by __exit__)
        self.process = subprocess.Popen(self.command, stdin=stdin or subprocess.DEVNULL, stdout=self._file, stderr=subprocess.STDOUT)
        self.pid = self.process.pid

    def output(self):
        """All it printed so far."""
        # A read position of its own: the child shares the one of the file.
        return os.pread(self._file.fileno(), 1 << 28, 0).decode(errors="replace")

    def alive(self):
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, timeout=HANGS):
        """Waits for its end and returns its exit status."""
        return self.process.wait(timeout)

    def finish(self, timeout=HANGS):
        """Waits for its end, which must be a good one, and returns what it printed."""
        status = self.wait(timeout)
        assert status == 0, f"{' '.join(self.command)}: exit status {status}\n{self.output()}"
        return self.output()

    def signal(self, number):
        """Sends a signal."""
        self.process.send_signal(number)

    def stop(self):
        """Ends it, gently if it lets itself be."""
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._file.close()
