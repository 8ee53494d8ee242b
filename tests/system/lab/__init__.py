"""What the system tests stand on: pods, a daemon, wires into pods, generators, and a peer that doesn't keep to the rules."""

from .daemon import Daemon
from .laboratory import Laboratory
from .pod import Pod
from .process import Process, eventually, run, tool
from .wire import Wire

__all__ = ["Daemon", "Laboratory", "Pod", "Process", "Wire", "eventually", "run", "tool"]
