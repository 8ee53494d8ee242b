"""Copy engines: bodies between memifs copied by a software model of Intel DSA that goes wrong, and by the CPU where it fails."""

import signal

import pytest
from lab import Laboratory, eventually
from lab.process import Process, tool

SIZES = [64, 65, 129, 594, 1514, 4400, 9000]

WRONG = """
[copy]
engine = "dsa-model"
threshold = 128
[copy.model]
mode = "{mode}"
size = 8
page_faults = 10
errors = 3
short_batches = 5
full = 20
delays = 2
reorder = true
"""


@pytest.fixture
def with_engine(own_daemon):
    """A laboratory around a daemon with these settings."""
    made = []

    def make(extra):
        daemon = own_daemon(extra=extra).start()
        lab = Laboratory(daemon)
        made.append(lab)
        daemon.apply(lab.memif("m12", 12, "mtu = 9000") + lab.memif("m13", 13, "mtu = 9000"))
        return lab

    yield make
    for lab in made:
        lab.close()


def queue(lab):
    """The model's counters; those that are zero are left out of answers."""
    copying = lab.daemon.show("copy")
    assert copying["engine"] == "dsa-model"
    return {name: int(value) if str(value).isdigit() else value for name, value in copying["queues"][0].items()}


def all_sizes(lab, *options):
    for size in SIZES:
        lab.lossless("m12", "m13", 12, 13, "--size", size, "--check", "payload", "--full", *options, count=1000)


@pytest.mark.parametrize("mode", ["dedicated", "shared"])
def test_frames_arrive_whole_whatever_the_device_does(with_engine, mode):
    lab = with_engine(WRONG.format(mode=mode))
    all_sizes(lab)
    seen = queue(lab)
    assert seen["completed"] > 1000 and seen["faults"] > 0 and seen["errors"] > 0, seen
    assert seen["completed"] + seen["fallbacks"] == seen["transfers"], seen
    assert mode == "dedicated" or seen["retries"] > 0, seen
    assert not seen.get("given_up"), seen
    shown = lab.daemon.cli("show", "copy").stdout
    assert "nothing about speed" in shown and mode in shown, shown
    metrics = lab.daemon.scrape()[1]
    line = next(line for line in metrics.splitlines() if line.startswith("quiver_copy_transfers_total"))
    assert 'engine="dsa-model"' in line and line.split()[-1] == str(seen["transfers"]), line


def test_chains_and_buffers_of_any_size(with_engine):
    lab = with_engine(WRONG.format(mode="dedicated"))
    for buffer in (512, 2048, 16384):
        lab.lossless("m12", "m13", 12, 13, "--size", 9000, "--check", "payload", "--full", "--buffer-size", buffer, count=500)
    assert queue(lab)["completed"] > 500


@pytest.mark.parametrize("trouble", ["dies_after = 200", "errors = 100"])
def test_a_device_that_fails_costs_no_packet(with_engine, trouble):
    lab = with_engine(f'[copy]\nengine = "dsa-model"\nthreshold = 128\n[copy.model]\n{trouble}\n')
    all_sizes(lab)
    seen = queue(lab)
    # Once it is given up nothing is offered to it any more, and workers find no such device either when it is tried again.
    assert seen["given_up"] and seen["times_given_up"] == 1 and 0 < seen["fallbacks"] < 1000, seen
    assert seen.get("completed", 0) + seen["fallbacks"] == seen["transfers"], seen
    assert "model is given up, the CPU copies: " in lab.daemon.cli("show", "copy").stdout
    log = eventually(lambda: [line for line in lab.daemon.log().splitlines() if "is given up" in line], "the log says so")
    assert len(log) == 1 and "queue=" in log[0] and "accel-config" in log[0], log
    assert 'quiver_copy_up{engine="dsa-model",queue="model"} 0' in lab.daemon.scrape()[1]
    # Peers come and go as before.
    lab.daemon.delete("interface", "m13")
    lab.daemon.apply(lab.memif("m13", 13, "mtu = 9000"))
    lab.lossless("m12", "m13", 12, 13, "--size", 1514, "--check", "payload", "--full")


def test_a_peer_that_vanishes_takes_nothing_with_it(with_engine):
    lab = with_engine(WRONG.format(mode="dedicated"))
    for _ in range(3):
        with lab.generator("m12", "m13", 12, 13, "--size", 4400, "--rate", 20000) as generator:
            eventually(lambda: lab.daemon.memif("m13").get("connected"), "m13 has a peer")
            before = queue(lab).get("transfers", 0)
            eventually(lambda before=before: queue(lab).get("transfers", 0) > before + 1000, "bodies are copied")
            generator.signal(signal.SIGKILL)
            generator.wait()
        eventually(lambda: not lab.daemon.memif("m13").get("connected"), "m13 has lost its peer")
    lab.lossless("m12", "m13", 12, 13, "--size", 9000, "--check", "payload", "--full")
    assert not queue(lab).get("given_up")


def test_workers_that_share_a_queue_to_send_by(own_daemon):
    lab = Laboratory(own_daemon(workers=2, extra=WRONG.format(mode="shared")).start())
    lab.daemon.apply(
        lab.memif("m12", 12, "mtu = 9000", memif=", rx_queues = 2, rx_workers = [0, 1]")
        + lab.memif("m13", 13, "mtu = 9000", memif=", tx_queues = 1")
    )
    lab.lossless("m12", "m13", 12, 13, "--queues", 2, "--size", 1514, "--check", "payload", "--full", "--source-port", "1-64")
    workers = lab.daemon.show("runtime")["workers"]
    received = {worker.get("index", 0) for worker in workers if int(worker.get("packets", 0)) > 100}
    assert received == {0, 1}, received
    seen = queue(lab)
    assert seen["completed"] > 0 and seen["completed"] + seen["fallbacks"] == seen["transfers"], seen


@pytest.mark.parametrize(
    "queues, words",
    [
        ('["wq0.0"]', ["copy engine", "/dev/dsa/wq0.0", "accel-config config-wq dsa0/wq0.0", 'copy.engine to "cpu"']),
        ("[]", ["copy engine", "/sys/bus/dsa/devices", "modprobe idxd"]),
        ('["dsa0"]', ["copy.queues", "wq0.1"]),
    ],
    ids=["named", "nearest", "no-name"],
)
def test_dsa_that_is_not_there_is_said_with_what_to_do(own_daemon, queues, words):
    daemon = own_daemon(extra=f'[copy]\nengine = "dsa"\nqueues = {queues}\n')
    with Process(tool("quiverd"), "--config", daemon.settings) as process:
        assert process.wait() == 1, process.output()
        said = process.output()
    assert all(word in said for word in words), said


def test_settings_of_another_engine_are_named(own_daemon):
    own = own_daemon(extra='[copy]\nqueues = ["wq0.0"]\nthreshold = 128\n[copy.model]\nsize = 8\n')
    with Process(tool("quiverd"), "--check", "--config", own.settings) as process:
        assert process.wait() == 0, process.output()
        said = process.output()
    for setting in ("copy.queues", "copy.threshold", "copy.model"):
        assert f'{setting} has no effect while copy.engine is "cpu"' in said, said


def test_the_workers_copy_unless_it_is_said_otherwise(lab, daemon):
    shown = daemon.show("copy")
    assert (shown["engine"], shown["queues"]) == ("cpu", [])
    assert "quiver_copy" not in daemon.scrape()[1]
