"""The C library as it is installed, and programs built against it."""

import os
import pathlib
import subprocess
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
C = ROOT / "crates/memif-c"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELEASE = TARGET / "release"
PREFIX = pathlib.Path(os.environ.get("QUIVER_MEMIF_PREFIX", TARGET / "memif-prefix"))
ENVIRONMENT = os.environ | {
    "PKG_CONFIG_PATH": str(PREFIX / "lib/pkgconfig"),
    "LD_LIBRARY_PATH": str(PREFIX / "lib"),
}
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]


def pkg_config(*arguments):
    """What pkg-config says, as words."""
    run = subprocess.run(["pkg-config", *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.fixture
def cc(tmp_path):
    """Compiles a C file against an installed package; gives the program."""

    def compile_one(source, package="quiver-memif", flags=()):
        program = tmp_path / pathlib.Path(source).stem
        libraries = pkg_config("--cflags", "--libs", package)
        subprocess.run(["cc", *WARNINGS, *flags, str(source), "-o", str(program), *libraries], check=True, env=ENVIRONMENT)
        return program

    return compile_one


@pytest.fixture
def socket():
    """Name of an abstract socket that nobody else has, without '@'."""
    return f"quiver/test-{uuid.uuid4()}"


@pytest.fixture
def start(tmp_path):
    """Starts programs, whose output goes to a file, and ends them after the test."""
    running = []

    def start_one(*command, **options):
        output = (tmp_path / f"output-{len(running)}").open("w+")
        words = [str(word) for word in command]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=output, env=ENVIRONMENT, **options)
        process.text = pathlib.Path(output.name).read_text
        running.append(process)
        return process

    yield start_one
    for process in running:
        process.kill()
        process.wait()
