"""A memif client that sends descriptors which can't be closed. As a program: unclosable.py NAME, of an abstract socket.

It claims interface 0, sends sixteen of them with a region, which has one by right, and says what it is told. Then it keeps the other ends
until its input ends.
"""

import array
import os
import socket
import struct
import sys
import threading

HELLO, INIT, ADD_REGION = 2, 3, 4
DAY = 86400


def lingering():
    """A socket whose last close waits a day for who doesn't read, and that one."""
    unread = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(unread.getsockname())
    one.setblocking(False)
    try:
        while one.send(bytes(1 << 16)):
            pass
    except BlockingIOError:
        one.setblocking(True)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, DAY))
    return one, unread


def unclosable():
    """The same, so deep in queues of sockets that nobody finds it to tell it not to linger."""
    inner, unread = lingering()
    for depth in range(8):
        outer, waits = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
        outer.bind(f"\0quiver-unclosable-{os.getpid()}-{depth}")
        outer.listen(1)
        waits.connect(outer.getsockname())
        send(waits, b"x", inner)
        inner = outer
    return inner, unread


def send(to, message, *files):
    """A message with descriptors."""
    descriptors = array.array("i", [file.fileno() for file in files])
    to.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


def main():
    """See above."""
    hangs, unread = unclosable()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect("\0" + sys.argv[1])
    told = server.recv(128)
    if told[0] == HELLO:
        server.send(struct.pack("<HHIB24s32s", INIT, 0x0200, 0, 0, b"", b"unclosable").ljust(128, b"\0"))
        server.recv(128)
        # Behind the first the others wait to be closed.
        send(server, struct.pack("<HHQ", ADD_REGION, 0, 4096).ljust(128, b"\0"), hangs, *[unread] * 15)
        # Ours should not be the last close; where the server was faster it hangs here.
        threading.Thread(target=hangs.close, daemon=True).start()
        told = server.recv(128)
    print("told", told[6:102].split(b"\0")[0].decode(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
