"""Frames made and read by scapy, sent and received through a raw socket on a device."""

import select
import socket
import struct

from scapy.layers.l2 import Ether

from .process import Patience

_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_OUTGOING = 4
_VLAN_VALID = 1 << 4
_VLAN_TPID_VALID = 1 << 6


class Wire:
    """A device's wire: `send` puts a frame on it, `expect` and `collect` see those that come from Quiver."""

    def __init__(self, device):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self.socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.bind((device, _ETH_P_ALL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *frames):
        """Sends frames."""
        for frame in frames:
            self.socket.send(bytes(frame))

    def expect(self, wanted, what, timeout=20.0):
        """The first frame that is `wanted`."""
        seen = []
        for frame in self._frames(timeout):
            if wanted(frame):
                return frame
            seen.append(frame.summary())
        raise AssertionError(f"no {what} came; instead: {seen}")

    def collect(self, wanted, until, timeout=20.0):
        """All `wanted` frames that come before one that is `until`: a marker sent behind them, so no time is guessed."""
        found = []
        for frame in self._frames(timeout):
            if until(frame):
                return found
            if wanted(frame):
                found.append(frame)
        raise AssertionError(f"the marker never came; before: {[frame.summary() for frame in found]}")

    def _frames(self, timeout):
        patience = Patience(timeout)
        while (left := patience.left()) > 0:
            if not select.select([self.socket], [], [], min(left, Patience.LONGEST))[0]:
                continue
            data, ancillary, _, address = self.socket.recvmsg(70000, 256)
            if address[2] != _OUTGOING:
                yield Ether(_with_tag(data, ancillary))


def _with_tag(data, ancillary):
    """The frame as it was on the wire: the kernel takes the outer VLAN tag out and tells it beside."""
    for level, kind, value in ancillary:
        if level == _SOL_PACKET and kind == _PACKET_AUXDATA:
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", value[:20])
            if status & _VLAN_VALID:
                tpid = tpid if status & _VLAN_TPID_VALID else 0x8100
                return data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
    return data
