"""DPDK's testpmd as memif client."""

from .process import Process


def forwarder(lab, sockets, queues=1):
    """A testpmd that connects to the memifs behind these sockets and gives each other's packets on.

    All its threads share one core with the generator: the other one is the worker's.
    """
    devices = [
        f"--vdev=net_memif{n},role=client,id=0,socket={lab.directory}/{name},socket-abstract=no,bsize=2048,rsize=10"
        for n, name in enumerate(sockets)
    ]
    return Process(
        "dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry",
        f"--file-prefix={lab.directory.name}", "--lcores=0@0,1@0", *devices,
        "--", "--forward-mode=io", "--auto-start", "--no-flush-rx", f"--rxq={queues}", f"--txq={queues}", "--total-num-mbufs=8192",
        "--no-mlockall", "--stats-period=1",
    )  # fmt: skip
