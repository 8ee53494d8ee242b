"""Applications: the ``count`` example of each memif library, one thread, as a server that receives or sends."""

from __future__ import annotations

import shutil
import subprocess
from abc import abstractmethod
from pathlib import Path

from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.devices.revision import ROOT
from quiver_bench.errors import Missing
from quiver_bench.generators import Endpoint


class Application(Device):
    """What the three have in common. Received packets are counted, and not a byte of them is read."""

    forwards = frozenset({"receive", "send"})
    ours = True
    note = "an example that counts, or sends the same packet again and again"

    def version(self) -> str:
        """The libraries' is Quiver's."""
        out = subprocess.run(
            [self.setup.binaries / "quiver-tgen", "--version"], capture_output=True, text=True, check=False
        )
        return out.stdout.strip().removeprefix("quiver-tgen ")

    @abstractmethod
    def command(self, socket: Path, size: int) -> list[object]:
        """Its command line: to count, or with a size to send packets of so many bytes."""

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """One memif is both."""
        end = Endpoint("memif", str(self.dir / "app"))
        return end, end

    def up(self) -> None:
        """Starts it."""
        socket = self.dir / "app"
        size = self.suite.traffic.pattern[0] if self.suite.case.forwarding == "send" else 0
        self.start("taskset", "--cpu-list", self.setup.cores.worker, *self.command(socket, size))
        self.wait_for("memif socket", socket.exists)


class RustApplication(Application):
    """In Rust."""

    name = "app-rust"
    dut_type = "memif-rust"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.program = setup.binaries / "examples" / "count"
        if not self.program.exists():
            raise Missing(f"{self.program} is missing: cargo build --release -p memif --examples")

    def command(self, socket: Path, size: int) -> list[object]:
        """See :meth:`Application.command`."""
        return [self.program, "server", socket, 0, *(("send", size) if size else ())]


class CApplication(Application):
    """In C, with the static library; compiled each time, since that takes no time."""

    name = "app-c"
    dut_type = "memif-c"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        library, source = setup.binaries / "libquiver_memif.a", ROOT / "crates" / "memif-c"
        if not library.exists():
            raise Missing(f"{library} is missing: cargo build --release -p quiver-memif-c")
        if not shutil.which("cc"):
            raise Missing("cc is missing: apt-get install gcc")
        self.program = self.dir / "count"
        compiled = "cc", "-std=gnu11", "-O2", "-I", source / "include", source / "examples" / "count.c", library
        call(*compiled, "-o", self.program, "-lpthread", "-ldl", "-lm", "-lgcc_s")

    def command(self, socket: Path, size: int) -> list[object]:
        """See :meth:`Application.command`."""
        return [self.program, "server", socket, *(("send", size) if size else ())]


class GoApplication(Application):
    """In Go; built each time, from what Go's own cache has."""

    name = "app-go"
    dut_type = "memif-go"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if not shutil.which("go"):
            raise Missing("go is missing: scripts/setup.sh test says which version")
        self.program = self.dir / "count"
        call("go", "-C", ROOT / "libraries" / "go" / "memif", "build", "-o", self.program, "./examples/count")

    def command(self, socket: Path, size: int) -> list[object]:
        """See :meth:`Application.command`."""
        return [self.program, "-server", socket, *(("-send", size) if size else ())]
