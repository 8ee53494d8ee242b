"""A memif server made by hand, which keeps to the protocol only as long as a test wants it to; see `raw_memif`."""

import contextlib
import mmap
import os
import pathlib
import socket
import struct

from .process import HANGS
from .raw_memif import ACK, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT, HELLO

_MESSAGE = 128
_HEAD, _TAIL, _RING_HEADER = 6, 64, 128
_DESCRIPTOR = struct.Struct("<HHIII")
# Directions of rings, as the flags of ADD_RING say.
TO_CLIENT, TO_SERVER = 0, 1


class RawMemifServer:
    """A socket, and one client that has come to it: those that come after aren't let in."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.settimeout(HANGS)
        self.listening.bind(str(path))
        self.listening.listen()
        self.peer = self.memory = self.words = None
        self.region = -1
        # By direction: where the first ring is, and whose bell it has.
        self.rings, self.bells = {}, {}

    def accept(self):
        """Lets the next client in; nobody finds the socket from then on."""
        self.peer, _ = self.listening.accept()
        self.peer.settimeout(HANGS)
        self._stop_listening()
        return self

    def _stop_listening(self):
        self.listening.close()
        self.path.unlink(missing_ok=True)

    # -- control channel -------------------------------------------------------------------------------------------

    def send(self, kind, payload=b"", descriptors=(), length=_MESSAGE):
        """Sends a message, whatever it says."""
        message = (struct.pack("<H", kind) + payload).ljust(length, b"\0")[:length]
        socket.send_fds(self.peer, [message], list(descriptors))

    def hello(self, log2=14, version=0x0200):
        """HELLO, with as many regions and rings as there can be."""
        self.send(HELLO, struct.pack("<32sHHHHHB", b"raw server", version, version, 255, 255, 255, log2))

    def receive(self):
        """The next message: type and payload; what came with it is kept."""
        message, descriptors, _, _ = socket.recv_fds(self.peer, 2 * _MESSAGE, 1)
        kind = struct.unpack_from("<H", message)[0] if message else 0
        if kind == ADD_REGION and self.memory is None:
            _, size = struct.unpack_from("<HQ", message, 2)
            self.region = descriptors.pop()
            self.memory = mmap.mmap(self.region, size)
            self.words = memoryview(self.memory).cast("H")
        if kind == ADD_RING:
            direction, index, _, offset = struct.unpack_from("<HHHI", message, 2)
            if index == 0:
                self.rings[direction], self.bells[direction] = offset, descriptors.pop()
        for descriptor in descriptors:
            os.close(descriptor)
        return kind, message[2:]

    def connect(self, **hello):
        """The whole handshake."""
        self.hello(**hello)
        while self.receive()[0] != CONNECT:
            self.send(ACK)
        self.send(CONNECTED, struct.pack("<32s", b"raw0"))
        return self

    def end(self):
        """Waits until the client ends the connection; returns its words, which it says once."""
        said, kind = [], DISCONNECT
        while kind:
            # Where it has left something unread that is told first, once.
            with contextlib.suppress(ConnectionResetError):
                kind, payload = self.receive()
                if kind == DISCONNECT:
                    said.append(payload[4:100].split(b"\0")[0].decode())
        assert len(said) == 1, said
        return said[0]

    # -- data ------------------------------------------------------------------------------------------------------

    def index(self, direction, which):
        """Head or tail of a ring."""
        return self.words[(self.rings[direction] + which) // 2]

    def posted(self):
        """How many buffers the client has posted to receive into."""
        return self.index(TO_CLIENT, _HEAD)

    def tail(self, value, direction=TO_CLIENT):
        """Moves the tail of a ring, which is ours, and rings its bell."""
        self.words[(self.rings[direction] + _TAIL) // 2] = value & 0xFFFF
        os.eventfd_write(self.bells[direction], 1)

    def describe(self, slot, length, flags=0):
        """Says how long the packet in a buffer of the client is."""
        where = self.rings[TO_CLIENT] + _RING_HEADER + slot * _DESCRIPTOR.size
        _, region, _, offset, metadata = _DESCRIPTOR.unpack_from(self.memory, where)
        _DESCRIPTOR.pack_into(self.memory, where, flags, region, length, offset, metadata)

    def write(self, slot, frame):
        """Writes a frame into a buffer of the client."""
        where = self.rings[TO_CLIENT] + _RING_HEADER + slot * _DESCRIPTOR.size
        offset = _DESCRIPTOR.unpack_from(self.memory, where)[3]
        self.memory[offset : offset + len(frame)] = frame
        self.describe(slot, len(frame))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop_listening()
        if self.peer:
            self.peer.close()
        if self.memory:
            self.words.release()
            self.memory.close()
            os.close(self.region)
        for bell in self.bells.values():
            os.close(bell)
