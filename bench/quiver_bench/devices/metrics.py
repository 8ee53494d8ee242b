"""A device's metrics, as Prometheus would fetch them."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

from quiver_bench.errors import TrialVoid

#: Seconds that an answer may take.
WITHIN_S = 30.0


def read(path: Path) -> dict[str, float]:
    """All samples behind a unix socket, by name with labels. Raises :class:`TrialVoid`."""
    connection = http.client.HTTPConnection("device", timeout=WITHIN_S)
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(WITHIN_S)
        connection.sock.connect(str(path))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except OSError as error:
        raise TrialVoid(f"metrics at {path}: {error}") from error
    finally:
        connection.close()
    return samples(text)


def samples(text: str) -> dict[str, float]:
    """By name with labels, from the text format of Prometheus."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}
