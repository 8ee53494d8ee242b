"""Holding a single thread of a process still, by ptrace(2): the others go on."""

import contextlib
import ctypes
import os
import pathlib

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


def thread_named(pid, name):
    """Id of the thread of that name."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise AssertionError(f"process {pid} has no thread {name}")


@contextlib.contextmanager
def stopped(pid, name):
    """That thread stands still."""
    thread = thread_named(pid, name)
    _ptrace(_SEIZE, thread)
    try:
        _ptrace(_INTERRUPT, thread)
        os.waitpid(thread, _WALL)
        yield
    finally:
        _ptrace(_DETACH, thread)


def _ptrace(request, thread):
    if _LIBC.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")
