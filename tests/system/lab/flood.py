"""A pod that sends frames over and over for as long as a test says, and bystanders that must not notice."""

import contextlib
import itertools
import socket
import threading
import time

from .process import eventually


class Flood:
    """Frames from a pod's device, sent by a thread in turn until `stop`: as fast as the kernel takes them, or so many a second."""

    def __init__(self, pod, frames, rate=None, device="eth0"):
        self.frames = [bytes(frame) for frame in frames]
        self.taken = 0
        self._pause = 1 / rate if rate else 0
        self._over = threading.Event()
        with pod.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.bind((device, 0))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        for frame in itertools.cycle(self.frames):
            if self._over.is_set():
                return
            with contextlib.suppress(OSError):  # The device's queue is full.
                self._socket.send(frame)
                self.taken += 1
            if self._pause:
                time.sleep(self._pause)

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self.taken > len(self.frames), lambda: f"the pod sends: {self.taken} so far")
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it."""
        self._over.set()
        self._thread.join()
        self._socket.close()


@contextlib.contextmanager
def bystanders(lab):
    """Pod a pings pod b, and a memif sends to another, all the while: nothing of that may be lost."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0") + lab.memif("m12", 12) + lab.memif("m13", 13))
    with a.pinging("10.2.0.2", 0.01), lab.generator("m12", "m13", 12, 13, "--rate", 2000, "--count", 10_000) as generator:
        eventually(lambda: lab.daemon.counter("m13", "tx_packets") > 100, lambda: f"packets flow\n{generator.output()}")
        yield a, b
        assert lab.lossless_end(generator)["sent"] == 10_000
