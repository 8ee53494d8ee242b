"""Files and settings that quiverd can't work with: it says so at once, and `--check` says the same."""

import contextlib
import os
import pathlib
import re

import pytest
from lab import Daemon
from lab.process import Process, run, tool

STATE = ["lock", "state.jsonl", "state.jsonl.previous", "journal-1.jsonl", "sessions.jsonl"]


def fifo(path):
    os.mkfifo(path)


def zeros(path):
    path.symlink_to("/dev/zero")


def device(path):
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))


def directory(path):
    path.mkdir()


def anothers(path):
    path.write_text("")
    os.chown(path, 65534, 65534)


def checked(daemon):
    """What `--check` says: exit status and words."""
    done = run(daemon.program, "--config", daemon.settings, "--check", check=False)
    return done.returncode, done.stdout + done.stderr


def started(daemon):
    """The same of a start that must fail."""
    with Process(daemon.program, "--config", daemon.settings) as process:
        return process.wait(), process.output()


@pytest.mark.parametrize("make, found", [
    (fifo, "it is a FIFO"),
    (zeros, "it is a symbolic link"),
    (device, "it is a character device"),
    (directory, "it is a directory"),
    (anothers, "it belongs to user 65534"),
], ids=["fifo", "zeros", "device", "directory", "anothers"])  # fmt: skip
@pytest.mark.parametrize("name", STATE)
def test_only_regular_files_of_quiverds_own_are_a_state(own_daemon, name, make, found):
    daemon = own_daemon()
    if name.startswith("journal"):
        # It is read where it follows a state.
        daemon.start()
        daemon.apply('[[vrf]]\nname = "red"\n')
        daemon.stop()
    daemon.state.mkdir(exist_ok=True)
    place = daemon.state / name
    place.unlink(missing_ok=True)
    make(place)
    status, said = checked(daemon)
    assert status != 0 and str(place) in said and found in said, said
    if name == "sessions.jsonl":
        # Without these it starts.
        daemon.start()
        assert found in daemon.log()
        return
    status, said = started(daemon)
    assert status == 1 and str(place) in said and found in said, said
    assert place.is_fifo() or place.is_symlink() or place.exists(), "it is left alone"


def test_a_state_without_end_is_set_aside(own_daemon):
    daemon = own_daemon()
    daemon.state.mkdir()
    with open(daemon.state / "state.jsonl", "w") as file:
        file.truncate(8 << 30)
    daemon.start()
    assert "is damaged" in daemon.log()
    assert (daemon.state / "state.jsonl.corrupt-1").stat().st_size == 8 << 30


@pytest.mark.parametrize("make, found", [(fifo, "a FIFO"), (zeros, "a character device"), (directory, "a directory")])
def test_settings_are_a_regular_file(tmp_path, make, found):
    path = tmp_path / "quiverd.toml"
    make(path)
    for more in ((), ("--check",)):
        done = run(tool("quiverd"), "--config", path, *more, check=False)
        assert done.returncode == 1 and str(path) in done.stderr and f"it is {found}" in done.stderr, done.stderr


def test_settings_may_be_behind_a_link(own_daemon):
    """As a volume of Kubernetes has them."""
    daemon = own_daemon()
    real = daemon.settings.rename(daemon.directory / "real.toml")
    daemon.settings.symlink_to(real)
    assert checked(daemon)[0] == 0
    daemon.start()


LONG = "/tmp/" + "x" * 103

WRONG = [
    ("api", 'socket = ""', "api.socket is empty"),
    ("api", f'socket = "{LONG}"', "108 bytes"),
    ("api", 'socket = "/tmp/"', "no name of a file"),
    ("api", 'socket = "/proc/q.sock"', "/proc/q.sock"),
    ("api", 'socket = "/dev/null/q.sock"', "/dev/null"),
    ("api", 'socket = "/etc/passwd"', "is no socket"),
    ("api", 'socket = "PLACE/q.sock"\nsocket_group = "ghosts"', 'names the group "ghosts"'),
    ("metrics", f'listen = "unix:{LONG}"', "108 bytes"),
    ("metrics", 'listen = "unix:/etc/passwd"', "is no socket"),
    ("metrics", 'listen = "192.0.2.1:9477"', "192.0.2.1:9477"),
    ("health", f'listen = "unix:{LONG}"', "108 bytes"),
    ("health", 'listen = "192.0.2.1:9479"', "192.0.2.1:9479"),
    ("health", 'listen = "unix:PLACE/metrics.sock"', "metrics.listen and health.listen are both"),
    ("state", 'directory = ""', "state.directory is empty"),
    ("state", 'directory = "/proc/state"', "/proc/state"),
    ("state", 'directory = "/etc/passwd"', "/etc/passwd"),
    ("workers", "cores = [4095]", "4095"),
    ("workers", "count = 0", "at least 1"),
    ("copy", 'engine = "dsa"\nqueues = ["nonsense"]', "nonsense"),
    ("log", 'level = "loud"', "loud"),
]


@pytest.mark.parametrize("section, text, words", WRONG, ids=[re.sub(r"\W+", "-", f"{s}-{t}")[:40] for s, t, _ in WRONG])
def test_check_refuses_what_a_start_refuses(own_daemon, section, text, words):
    daemon = own_daemon()
    text = text.replace("PLACE", str(daemon.directory))
    sections = dict(re.findall(r"\[(\w+)\]\n([^\[]*(?:\[\d+\]\n)?)", daemon.settings.read_text()))
    sections[section] = text + "\n"
    daemon.settings.write_text("".join(f"[{name}]\n{lines}\n" for name, lines in sections.items()))
    before = {path: path.lstat().st_mode for path in daemon.directory.rglob("*")}
    status, said = checked(daemon)
    assert status == 1 and words in said, said
    assert {path: path.lstat().st_mode for path in daemon.directory.rglob("*")} == before, "a check leaves no trace"
    status, said = started(daemon)
    assert status == 1 and words in said and "panicked" not in said, said


def test_check_is_no_matter_to_a_running_quiverd(own_daemon):
    daemon = own_daemon().start()
    daemon.apply('[[vrf]]\nname = "red"\n')
    status, said = checked(daemon)
    assert status == 0, said
    assert f"health   unix:{daemon.directory}/quiver-health.sock" in said
    assert daemon.names() == ["red"]


def test_a_socket_whose_owner_hangs_is_in_use(own_daemon):
    """Its queue is full: a start doesn't wait for it."""
    import socket

    daemon = own_daemon()
    with contextlib.ExitStack() as stack:
        hangs = stack.enter_context(socket.socket(socket.AF_UNIX))
        hangs.bind(str(daemon.socket))
        hangs.listen(1)
        for _ in range(4):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(str(daemon.socket))
        status, said = started(daemon)
        assert status == 1 and "another process already serves" in said, said


def test_a_path_may_be_as_long_as_the_kernel_takes_it(tmp_path_factory):
    place = pathlib.Path(f"/tmp/qt-{os.getpid()}")
    place.mkdir()
    try:
        daemon = Daemon(place)
        longest = place / ("q" * (107 - len(str(place)) - 1))
        daemon.settings.write_text(daemon.settings.read_text().replace(str(daemon.socket), str(longest)))
        daemon.socket = longest
        try:
            daemon.start()
            assert daemon.show("version")["version"]
        finally:
            daemon.stop()
    finally:
        run("rm", "-r", place)
