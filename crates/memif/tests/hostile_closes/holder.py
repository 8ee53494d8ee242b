"""A peer that has whoever seals the file of a region wait for ever: it writes to that file from a page that never comes.

Arguments: name of the abstract socket, and in hexadecimal: of a client INIT and ADD_REGION, which it says with a region of its own, and what
else it says at once, whether or not it has heard an answer; of a server HELLO, ACK and CONNECTED, which it says to whoever comes, holding the
region that it is given before the last. Says "held" once that is so and all is said, and what a client is told last as it is disconnected.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import socket
import struct
import sys
import threading
import time

USERFAULTFD = {"x86_64": 323, "aarch64": 282}[platform.machine()]
UFFDIO_API, UFFDIO_REGISTER, MISSING = 0xC018AA3F, 0xC020AA00, 1
F_ADD_SEALS, F_SEAL_SHRINK, ALLOW_SEALING = 1033, 2, 2

libc = ctypes.CDLL(None, use_errno=True)
userfault = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
if userfault < 0:
    print("no userfaultfd:", os.strerror(ctypes.get_errno()), flush=True)
    sys.exit()
fcntl.ioctl(userfault, UFFDIO_API, struct.pack("QQQ", 0xAA, 0, 0))
page = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(userfault, UFFDIO_REGISTER, struct.pack("QQQQ", address, 4096, MISSING, 0))

libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]


def hold(memory: int) -> None:
    """Until this process ends."""
    threading.Thread(target=libc.write, args=(memory, address, 4096), daemon=True).start()
    # The fault is told: the writer has the file's lock, and waits.
    os.read(userfault, 32)


def announce(peer: socket.socket, init: bytes, region: bytes, *more: bytes) -> None:
    """Of a client."""
    add_region, add_ring = 4, 5
    memory = os.memfd_create("held", ALLOW_SEALING)
    os.ftruncate(memory, 1 << 20)
    fcntl.fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK)
    hold(memory)
    peer.recv(128)
    peer.send(init)
    peer.recv(128)
    descriptors = {add_region: [memory], add_ring: [os.eventfd(0)]}
    for message in [region, *more]:
        socket.send_fds(peer, [message], descriptors.get(message[0], []))


def told(peer: socket.socket) -> None:
    """Until the connection ends."""
    disconnect = 8
    while message := peer.recv(128):
        if message[0] == disconnect:
            print("told", message[6:102].split(b"\0")[0].decode(), flush=True)


def accept(peer: socket.socket, hello: bytes, ack: bytes, connected: bytes) -> None:
    """Of a server."""
    add_region, connect = 4, 6
    peer.send(hello)
    memory = None
    while True:
        message, descriptors, _, _ = socket.recv_fds(peer, 128, 1)
        if message[0] == add_region:
            memory = descriptors[0]
        if message[0] == connect:
            break
        peer.send(ack)
    hold(memory)
    peer.send(connected)


name, *words = sys.argv[1:]
messages = [bytes.fromhex(word) for word in words]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
    init = 3
    is_client = messages[0][0] == init
    if is_client:
        peer.connect("\0" + name)
        announce(peer, *messages)
    else:
        peer.bind("\0" + name)
        peer.listen()
        print("listening", flush=True)
        served, _ = peer.accept()
        accept(served, *messages)
    print("held", flush=True)
    if is_client:
        told(peer)
        print("ended", flush=True)
    time.sleep(1000)
