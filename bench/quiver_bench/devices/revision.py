"""Quiver as it was at a commit: a worktree and a release build, kept in the cache by commit."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from functools import cache as cached
from pathlib import Path

from quiver_bench.errors import BadInput, BenchError

#: The checkout this package stands in.
ROOT = Path(__file__).resolve().parents[3]

PROGRAMS = ("quiverd", "quiver")


def cache() -> Path:
    """Where environments and builds are kept."""
    return Path(os.environ.get("QUIVER_BENCH_CACHE") or Path.home() / ".cache" / "quiver-bench")


def binaries() -> Path:
    """Where this checkout's programs are: ``QUIVER_BIN``, or ``target/release``."""
    return Path(os.environ.get("QUIVER_BIN") or ROOT / "target" / "release")


def commit_of(revision: str) -> str:
    """The full name of a commit. Raises :class:`BadInput`."""
    done = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if done.returncode != 0:
        raise BadInput(f"quiver@{revision}: {ROOT} has no such commit (git log --oneline shows them)")
    return done.stdout.strip()


@cached
def is_known(commit: str) -> bool:
    """Whether a commit is in the history of what is checked out; also where there is no history to look at."""
    if _git("rev-parse", "--verify", "--quiet", "HEAD").returncode != 0:
        return True
    return _git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def told_by(programs: Path) -> tuple[str, str]:
    """Version and commit that the ``quiverd`` of a directory tells of itself; empty where it isn't there or doesn't know."""
    try:
        done = subprocess.run([programs / "quiverd", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return "", ""
    told = re.match(r"quiverd (\S+)(?: \(commit ([0-9a-f]{7,40})\))?", done.stdout)
    return (told[1], told[2] or "") if told else ("", "")


def here() -> str:
    """Commit that the programs were built from, as ``quiverd`` tells it: the checkout may have gone on since. With ``+`` where it
    hasn't, and something in it isn't committed. Empty where it isn't known.
    """
    built = told_by(binaries())[1][:12]
    dirty = (
        built == checked_out()
        and _git("-C", str(binaries()), "status", "--porcelain", "--untracked-files=no").stdout.strip()
    )
    return built + ("+" if built and dirty else "")


def checked_out() -> str:
    """Commit of the checkout that the programs lie in; empty outside git."""
    return _git("-C", str(binaries()), "rev-parse", "--short=12", "HEAD").stdout.strip()


def outdated() -> str:
    """What must be said where the programs aren't those of the checkout."""
    built, head = told_by(binaries())[1][:12], checked_out()
    if not built or not head or built == head:
        return ""
    return (
        f"the programs were built at {built}, and the checkout is at {head}: figures are those of {built} (make build)"
    )


def build(revision: str) -> tuple[Path, str]:
    """Directory of the programs of a commit, built if they aren't there yet, and its full name."""
    commit = commit_of(revision)
    built = cache() / "builds" / commit[:16]
    if all((built / program).exists() for program in PROGRAMS):
        return built, commit
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # builds share a target directory
        if all((built / program).exists() for program in PROGRAMS):
            return built, commit
        source = cache() / "source"
        _checkout(source, commit)
        print(f"quiver-bench: building {commit[:12]} (once; minutes)", file=sys.stderr)
        target = cache() / "target"
        command = ["nice", "cargo", "build", "--release", "--locked"]
        for program in PROGRAMS:
            command += ["--bin", program]
        done = subprocess.run(
            command, cwd=source, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, stdout=sys.stderr, check=False
        )
        if done.returncode != 0:
            raise BenchError(f"quiver@{revision} can't be built: cargo build ended with {done.returncode} in {source}")
        partial = built.with_suffix(".partial")
        partial.mkdir(parents=True, exist_ok=True)
        for program in PROGRAMS:
            shutil.copy2(target / "release" / program, partial / program)
        partial.rename(built)
    return built, commit


def _checkout(source: Path, commit: str) -> None:
    """A worktree at that commit: the one of the last build, moved there, so that cargo sees what didn't change."""
    if (source / ".git").exists() and _git(
        "-C", str(source), "checkout", "--quiet", "--detach", "--force", commit
    ).returncode == 0:
        return
    _git("worktree", "prune")
    shutil.rmtree(source, ignore_errors=True)
    done = _git("worktree", "add", "--quiet", "--force", "--detach", str(source), commit)
    if done.returncode != 0:
        raise BenchError(f"git worktree add {source}: {done.stderr.strip()}")


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
