"""The parser, and the exit status: 0 done, 1 a gate isn't reached, 2 bad input, 3 it could not be measured."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from quiver_bench import __version__
from quiver_bench.commands import compare, measure, views
from quiver_bench.commands.common import Aside, nobody_reads
from quiver_bench.errors import BenchError, TrialVoid


def parser() -> argparse.ArgumentParser:
    """All commands."""
    made = argparse.ArgumentParser(
        prog="quiver-bench",
        description="Holds dataplanes against each other: Quiver, DPDK, the kernel, VPP. docs/benchmarking.md explains.",
    )
    made.add_argument("--version", action="version", version=f"quiver-bench {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    views.add_list(commands)
    measure.add(commands)
    compare.add(commands)
    views.add(commands)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command."""
    with contextlib.redirect_stderr(Aside(sys.stderr)):
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # devices are taken down, results kept
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has its way
            signal.signal(signal.SIGHUP, signal.default_int_handler)
        options = parser().parse_args(arguments)
        if stop_after := getattr(options, "stop_after", None):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, stop_after)
        status = int(options.run(options) or 0)
        sys.stdout.flush()  # else it fails when nobody catches it any more
        return status
    except TrialVoid as void:
        print(f"quiver-bench: {void}", file=sys.stderr)
        if void.log.strip():
            print("\n".join(f"  | {line}" for line in void.log.strip().splitlines()[-20:]), file=sys.stderr)
        return void.exit_status
    except BenchError as error:
        print(f"quiver-bench: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        nobody_reads()  # of what only shows something: what is measured is put out by itself
        return 0
    except KeyboardInterrupt:
        return _stopped()
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            return _stopped()
        _unforeseen(error)
        return BenchError.exit_status  # not that of a gate
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stopped() -> int:
    """Says so; gives the exit status."""
    print("quiver-bench: stopped", file=sys.stderr)
    return 130


def _unforeseen(error: Exception) -> None:
    """Says in a line what went wrong, and where; all of it where ``QUIVER_BENCH_DEV`` is set."""
    said = f"quiver-bench: {type(error).__name__}: {error}"
    if not isinstance(error, OSError):  # what the system says needs no place
        at = traceback.extract_tb(error.__traceback__)[-1]
        said += f" ({at.filename}:{at.lineno}; QUIVER_BENCH_DEV=1 shows more)"
    if os.environ.get("QUIVER_BENCH_DEV"):
        traceback.print_exception(error)
    print(said, file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: Python would try again at its end, and have a status of its own
        nobody_reads()
