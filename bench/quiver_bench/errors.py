"""What can go wrong, each with the exit status it ends the program with."""


class BenchError(Exception):
    """Something the user has to know. The message names the object and the remedy."""

    exit_status = 3


class BadInput(BenchError):
    """The command line asks for something that doesn't exist or can't be."""

    exit_status = 2


class Missing(BenchError):
    """A program, a core or memory is missing on this machine."""


class Unsupported(BenchError):
    """This device or generator can't do what the suite asks."""


class NotKept(BenchError):
    """A result can't be written, as on a full disk."""


class TrialVoid(BenchError):
    """A trial that says nothing, as when the device died in it. ``log`` is what the device said last."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class NothingThrough(TrialVoid):
    """The device let nothing through."""
