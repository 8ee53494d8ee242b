"""libquiver-memif: its tests in C, and its examples with real peers."""

import os
import re
import shutil
import subprocess
import time

import pytest
from conftest import ENVIRONMENT, RELEASE, ROOT, SANITIZERS, C

PATIENCE = 60


def run(*command):
    words = [str(word) for word in command]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until(condition):
    """What the condition gives once it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{condition} didn't come true")


def test_agrees_with_the_table_of_byte_vectors(cc):
    program = cc(C / "tests/conformance.c", flags=SANITIZERS)
    assert "entries of the table agree" in run(program, ROOT / "tests/conformance/memif/memif-2.0.txt")


def test_calls(cc):
    assert run(cc(C / "tests/api.c", flags=[*SANITIZERS, "-pthread"])) == "ok\n"


def test_calls_of_the_libmemif_layer(cc):
    assert run(cc(C / "tests/compat.c", package="quiver-memif-compat", flags=SANITIZERS)) == "ok\n"


def test_survives_its_peers(cc):
    assert run(cc(C / "tests/hostile.c", flags=[*SANITIZERS, "-pthread"])) == "ok\n"


def test_waits_for_no_peer_that_holds_a_file(cc):
    said = run(cc(C / "tests/hostile_held.c", flags=SANITIZERS), ROOT / "crates/memif/tests/hostile_closes/holder.py")
    if said.startswith("SKIPPED") and os.environ.get("QUIVER_REQUIRE_PEERS") != "1":
        pytest.skip(said)
    assert said == "ok\n"


def test_goes_on_in_a_child(cc):
    assert run(cc(C / "tests/fork.c", flags=["-pthread"])) == "ok\n"


def test_stays_while_a_thread_of_it_runs(cc):
    # It loads the library itself, which may find a function of the program's.
    assert run(cc(C / "tests/unload.c", flags=["-pthread", "-rdynamic", "-Wl,--as-needed"])) == "ok\n"


def test_links_statically(cc, tmp_path):
    # --static gives -lpthread and the like; the archive itself is named, or the linker would take the shared library.
    prefix = os.path.dirname(os.path.dirname(ENVIRONMENT["PKG_CONFIG_PATH"]))
    program = tmp_path / "static"
    words = ["cc", "-pthread", str(C / "tests/api.c"), "-o", str(program), f"-I{prefix}/include"]
    subprocess.run([*words, f"{prefix}/lib/libquiver-memif.a", "-ldl", "-lm", "-lgcc_s"], check=True)
    assert "quiver" not in run("ldd", program)
    assert run(program) == "ok\n"


def test_headers_stand_alone():
    prefix = os.path.dirname(os.path.dirname(ENVIRONMENT["PKG_CONFIG_PATH"]))
    for name in ("quiver/memif.h", "quiver-memif-compat/libmemif.h"):
        run("cc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wpedantic", "-x", "c", f"{prefix}/include/{name}")


@pytest.mark.parametrize("size", [64, 1518, 9000])
def test_gives_back_every_byte_to_quiver_tgen(cc, start, socket, size):
    start(cc(C / "examples/count.c"), "server", f"@{socket}", "echo")
    arguments = ["--size", size, "--seconds", 10, "--count", 5000, "--rate", 5000, "--check", "payload", "--full"]
    output = run(RELEASE / "quiver-tgen", "--tx", f"@{socket}", *arguments)
    assert "sent 5000, received 5000, lost 0 " in output
    assert "corrupted 0" in output


@pytest.mark.skipif(
    not shutil.which("dpdk-testpmd") and os.environ.get("QUIVER_REQUIRE_PEERS") != "1",
    reason="dpdk-testpmd is missing: install dpdk-dev (Debian)",
)
@pytest.mark.parametrize("role", ["client", "server"])
def test_with_dpdk(cc, start, socket, role, tmp_path):
    """testpmd sends its packets of 64 bytes; ours counts them."""
    other = "server" if role == "client" else "client"
    program = cc(C / "examples/count.c")
    device = f"--vdev=net_memif0,role={other},id=0,socket-abstract=yes,socket={socket}"
    eal = ["-l", "0-1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", f"--file-prefix={tmp_path.name}", device]
    application = ["--no-mlockall", "--total-num-mbufs=8192", "--disable-link-check", "--forward-mode=txonly"]
    if role == "server":
        count = start(program, role, f"@{socket}")
        start("dpdk-testpmd", *eal, "--", *application, "--auto-start")
    else:
        # Who connects to it while it sets up its queues, or polls them, may have it crash.
        testpmd = start("stdbuf", "-oL", "dpdk-testpmd", *eal, "--", *application, "--interactive")
        until(lambda: "testpmd>" in testpmd.text())
        count = start(program, role, f"@{socket}")
        until(lambda: "link up" in count.text())
        testpmd.stdin.write(b"start\n")
        testpmd.stdin.flush()
    line = re.compile(r"received ([1-9]\d*|0)\.(\d+) Mpps, (\d+\.\d+) Gbit/s")

    def received():
        for whole, part, gigabits in line.findall(count.text()):
            if (packets := float(f"{whole}.{part}")) > 0.01:
                return float(gigabits) * 1000 / packets / 8
        return None

    assert abs(until(received) - 64) < 8, "bytes per packet"


PING = """
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"quiver/memif"
)

func main() {
	config := memif.ClientConfig{HugePages: memif.NoHugePages, RingSize: 64}
	var conn *memif.Conn
	var err error
	for range 200 {
		if conn, err = memif.Dial(context.Background(), os.Args[1], config); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		panic(err)
	}
	// Echo request 192.0.2.1 to 192.0.2.2, id 0x1234, sequence 1; checksums worked out by hand.
	ping := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0xf6, 0xdd,
		192, 0, 2, 1, 192, 0, 2, 2, 8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1)
	pong := []byte{192, 0, 2, 2, 192, 0, 2, 1, 0, 0, 0xed, 0xca, 0x12, 0x34, 0, 1}
	buffer := make([]byte, 100)
	for range 300 { // more often than the ring has slots
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.WritePacket(ping); err != nil {
			panic(err)
		}
		n, err := conn.ReadPacket(buffer)
		if err != nil || !bytes.Equal(buffer[26:n], pong) {
			panic(fmt.Sprintf("%v % x", err, buffer[:n]))
		}
	}
	fmt.Println("answered")
}
"""


def test_a_program_in_libmemifs_style_answers_pings(cc, start, socket, tmp_path):
    """Two clients, one after the other, of one server: Go asks, the libmemif layer answers."""
    program = cc(C / "examples/libmemif-icmp.c", package="quiver-memif-compat", flags=["-Wno-sign-conversion"])
    server = start(program, f"@{socket}", "master")
    source, ping = tmp_path / "main.go", tmp_path / "ping"
    source.write_text(PING)
    subprocess.run(["go", "build", "-o", str(ping), str(source)], cwd=ROOT / "libraries/go/memif", check=True)
    for _ in range(2):
        assert run(ping, f"@{socket}") == "answered\n"
    until(lambda: server.text().count("disconnected") == 2)
    assert server.text().count("connected to memif") == 2
