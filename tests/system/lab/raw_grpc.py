"""A gRPC client made by hand (HTTP/2, RFC 9113; HPACK literals, RFC 7541), which never reads: its calls stay under way."""

import os
import socket
import struct
import subprocess
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW_SIZE = 4


def _frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(method, stream):
    """The frames of a call with an empty message."""
    head = b"".join(
        _literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/quiver.v1.Quiver/" + method.encode()),
            (b":authority", b"quiverd"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )
    return _frame(_HEADERS, _END_HEADERS, stream, head) + _frame(_DATA, _END_STREAM, stream, bytes(5))


def stalled_calls(path, method, count):
    """A connection with calls whose answers have no window: their server can't send them."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))
    connection.sendall(PREFACE + _frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0)))
    connection.sendall(b"".join(call(method, 1 + 2 * at) for at in range(count)))
    return connection


class Crowd:
    """Processes of which each holds connections to a unix socket: silent ones, or with stalled calls."""

    def __init__(self, path, processes, connections, calls=0, method="Get"):
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "lab.raw_grpc", str(path), str(connections), str(calls), method],
                cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(processes)
        ]  # fmt: skip
        for process in self.processes:
            assert process.stdout.readline() == b"here\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
            process.wait()
            process.stdout.close()


if __name__ == "__main__":
    held = []
    for _ in range(int(sys.argv[2])):
        if int(sys.argv[3]):
            held.append(stalled_calls(sys.argv[1], sys.argv[4], int(sys.argv[3])))
        else:
            held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            held[-1].connect(sys.argv[1])
    print("here", flush=True)
    sys.stdin.read()
