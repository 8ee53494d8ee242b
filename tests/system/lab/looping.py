"""Having a single thread of a process loop for ever, by ptrace(2): a worker that really runs and never comes to the end of its round.

The thread is sent to an instruction that jumps to itself, written behind the end of the program's code, where its last page is
filled up with zeros. x86-64 only.
"""

import ctypes
import os
import platform
import re

from lab.thread import _DETACH, _INTERRUPT, _LIBC, _SEIZE, _WALL, _ptrace, thread_named

_GETREGS, _SETREGS = 12, 13
# Of struct user_regs_struct (sys/user.h).
_ORIG_RAX, _RIP, _REGISTERS = 15, 16, 27
_JUMP_TO_ITSELF = b"\xeb\xfe"
# What is asked to be filling, behind the code.
_ROOM = 16

POSSIBLE = platform.machine() == "x86_64"


def loop(pid, name):
    """From now on, that thread runs and gets nowhere."""
    place = _behind_the_code(pid)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(place)
        filling = memory.read(_ROOM)
        # Or it has been here before.
        assert filling in (bytes(_ROOM), _JUMP_TO_ITSELF.ljust(_ROOM, b"\0")), f"the code's last page is full: {filling.hex()}"
        memory.seek(place)
        memory.write(_JUMP_TO_ITSELF)
    thread = thread_named(pid, name)
    _ptrace(_SEIZE, thread)
    try:
        _ptrace(_INTERRUPT, thread)
        os.waitpid(thread, _WALL)
        registers = (ctypes.c_uint64 * _REGISTERS)()
        _registers(_GETREGS, thread, registers)
        registers[_RIP] = place
        # It was in no system call that the kernel would begin again.
        registers[_ORIG_RAX] = 2**64 - 1
        _registers(_SETREGS, thread, registers)
    finally:
        _ptrace(_DETACH, thread)


def _behind_the_code(pid):
    """The last bytes of the program's own executable pages."""
    program = os.readlink(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        for line in maps:
            found = re.match(r"[0-9a-f]+-([0-9a-f]+) r-xp .* (/.*)$", line)
            if found and found[2] == program:
                return int(found[1], 16) - _ROOM
    raise AssertionError(f"process {pid} has no code")


def _registers(request, thread, registers):
    if _LIBC.ptrace(request, thread, None, ctypes.addressof(registers)) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")
