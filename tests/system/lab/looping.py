"""Having a single thread of a process loop for ever, by ptrace(2): a worker that really runs and never comes to the end of its round.

The thread is sent to an instruction that jumps to itself, written behind the end of the program's code, in what is left of its last page:
nobody runs what is there, and it is the process's own copy. x86-64 only.
"""

import ctypes
import mmap
import os
import platform
import re
import struct

from lab.thread import _DETACH, _INTERRUPT, _LIBC, _SEIZE, _WALL, _ptrace, thread_named

_GETREGS, _SETREGS = 12, 13
# Of struct user_regs_struct (sys/user.h).
_ORIG_RAX, _RIP, _REGISTERS = 15, 16, 27
_JUMP_TO_ITSELF = b"\xeb\xfe"
# Of a segment (elf.h): PT_LOAD, PF_X.
_LOADED, _EXECUTABLE = 1, 1

POSSIBLE = platform.machine() == "x86_64"


def loop(pid, name):
    """From now on, that thread runs and gets nowhere."""
    place = _behind_the_code(pid)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
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
    room = _room_behind_code(program)
    assert room >= len(_JUMP_TO_ITSELF), f"the code of {program} fills its last page up"
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        for line in maps:
            found = re.match(r"[0-9a-f]+-([0-9a-f]+) r-xp .* (/.*)$", line)
            if found and found[2] == program:
                return int(found[1], 16) - len(_JUMP_TO_ITSELF)
    raise AssertionError(f"process {pid} has no code")


def _room_behind_code(program):
    """Bytes between the end of the program's code and that of its last page (elf(5), of 64 bits)."""
    with open(program, "rb") as file:
        header = file.read(64)
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = file.read(size * count)
    for at in range(0, size * count, size):
        kind, flags, _, address, _, length = struct.unpack_from("<IIQQQQ", segments, at)
        if kind == _LOADED and flags & _EXECUTABLE:
            return -(address + length) % mmap.PAGESIZE
    raise AssertionError(f"{program} has no code")


def _registers(request, thread, registers):
    if _LIBC.ptrace(request, thread, None, ctypes.addressof(registers)) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")
