"""A memif client made by hand, which keeps to the protocol only as long as a test wants it to.

Written from the protocol's description alone (messages of 128 bytes, rings of 16-byte descriptors), so that it doesn't
share a misunderstanding with Quiver's own implementation.
"""

import array
import fcntl
import mmap
import os
import socket
import struct

from .process import HANGS

ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
COOKIE = 0x3E31F20
NEXT = 1
_F_ADD_SEALS = 1033
_F_SEAL_SHRINK = 2
_RING_HEADER = 128
_DESCRIPTOR = struct.Struct("<HHIII")


class Refused(Exception):
    """The server ended the connection, with these words."""


class RawMemif:
    """One connection: one region that holds a ring each way and the buffers."""

    def __init__(self, path, id=0, secret=b"", log2=8, buffer=2048, mode=0):
        self.size, self.buffer = 1 << log2, buffer
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(HANGS)
        self.socket.connect(path)
        self.id, self.secret, self.mode, self.log2 = id, secret, mode, log2
        ring = _RING_HEADER + _DESCRIPTOR.size * self.size
        self.rings = (0, ring)
        self.buffers = (2 * ring + 4095) & ~4095
        self.length = self.buffers + 2 * self.size * buffer
        self.descriptor = os.memfd_create("raw-memif", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, self.length)
        self.memory = mmap.mmap(self.descriptor, self.length)
        # For indexes: one store each. struct.pack_into writes zeros first, and the server would see them.
        self.words = memoryview(self.memory).cast("H")
        self.events = [os.eventfd(0), os.eventfd(0)]

    # -- control channel -------------------------------------------------------------------------------------------

    def send(self, kind, payload=b"", descriptors=()):
        """Sends a message, whatever it says."""
        message = struct.pack("<H", kind) + payload
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([message.ljust(128, b"\0")], ancillary)

    def receive(self, expected):
        """The next message, which must be of the expected type; returns its payload."""
        message = self.socket.recv(256)
        kind = struct.unpack_from("<H", message)[0] if message else 0
        if kind == DISCONNECT:
            raise Refused(message[6:102].split(b"\0")[0].decode())
        if not message:
            raise Refused("")
        assert (kind, len(message)) == (expected, 128), (kind, len(message))
        return message[2:]

    def seal(self):
        """Promises that the memory won't shrink."""
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK)

    def init(self):
        """HELLO and INIT."""
        self.hello = self.receive(HELLO)
        self.send(INIT, struct.pack("<HIB24s32s", 0x0200, self.id, self.mode, self.secret, b"raw peer"))
        self.receive(ACK)

    def add_region(self, index=0, size=None):
        """ADD_REGION; with a `size`, one that may not be true."""
        # The server seals each file that it maps: it takes none twice.
        descriptor = self._another_file() if index else os.dup(self.descriptor)
        try:
            self.send(ADD_REGION, struct.pack("<HQ", index, self.length if size is None else size), [descriptor])
        finally:
            os.close(descriptor)
        self.receive(ACK)

    def _another_file(self):
        descriptor = os.memfd_create("raw-memif", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, self.length)
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK)
        return descriptor

    def add_ring(self, direction, index=0, region=0, offset=None, log2=None):
        """ADD_RING; direction 1 is client to server."""
        where = self.rings[1 - direction] if offset is None else offset
        payload = struct.pack("<HHHIBH", direction, index, region, where, self.log2 if log2 is None else log2, 0)
        self.send(ADD_RING, payload, [self.events[1 - direction]])
        self.receive(ACK)

    def connect(self):
        """The whole handshake."""
        self.seal()
        self.init()
        self.add_region()
        for ring in self.rings:
            struct.pack_into("<IHH", self.memory, ring, COOKIE, 0, 0)
        self.add_ring(1)
        self.add_ring(0)
        self.send(CONNECT, struct.pack("<32s", b"raw0"))
        self.receive(CONNECTED)
        return self

    def end(self):
        """Waits until the server ends the connection; returns its words."""
        try:
            message = self.socket.recv(256)
        except ConnectionError:
            return ""
        return message[6:102].split(b"\0")[0].decode() if message[:1] == bytes([DISCONNECT]) else ""

    # -- data ------------------------------------------------------------------------------------------------------

    def describe(self, slot, length, offset=None, region=0, flags=0):
        """Writes a descriptor of the ring to the server."""
        offset = self.buffers + slot * self.buffer if offset is None else offset
        where = self.rings[0] + _RING_HEADER + (slot % self.size) * _DESCRIPTOR.size
        _DESCRIPTOR.pack_into(self.memory, where, flags, region, length, offset, 0)

    def head(self, value, ring=0):
        """Moves the head of a ring and rings its bell."""
        self.words[(self.rings[ring] + 6) // 2] = value & 0xFFFF
        os.eventfd_write(self.events[ring], 1)

    def post_empty(self, count):
        """Posts that many empty buffers to receive into, and asks for interrupts."""
        for slot in range(count):
            where = self.rings[1] + _RING_HEADER + slot * _DESCRIPTOR.size
            offset = self.buffers + (self.size + slot) * self.buffer
            _DESCRIPTOR.pack_into(self.memory, where, 0, 0, self.buffer, offset, 0)
        self.words[(self.rings[1] + 4) // 2] = 0
        self.words[(self.rings[1] + 6) // 2] = count

    def mask(self, ring):
        """Asks for no interrupts any more: this side polls the ring."""
        self.words[(self.rings[ring] + 4) // 2] = 1

    def tail(self, ring=0):
        """Tail of a ring."""
        return self.words[(self.rings[ring] + 64) // 2]

    def set_tail(self, value, ring=0):
        """Overwrites the tail of a ring, which belongs to the server."""
        self.words[(self.rings[ring] + 64) // 2] = value & 0xFFFF

    def write(self, slot, frame):
        """Writes a frame into its buffer and describes it truthfully."""
        start = self.buffers + slot * self.buffer
        self.memory[start : start + len(frame)] = frame
        self.describe(slot, len(frame))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.words.release()
        self.memory.close()
        for descriptor in [self.descriptor, *self.events]:
            os.close(descriptor)
