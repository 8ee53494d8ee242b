"""The clients of docs/memif-for-pods.md are what they claim: compiled as they stand, they give back what they get."""

import re
import subprocess
import time

import pytest
from conftest import RELEASE, ROOT, TARGET

PATIENCE = 60


def block(language):
    page = (ROOT / "docs/memif-for-pods.md").read_text()
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.parametrize("language", ["rust", "go", "c"])
def test_client(language, tmp_path, cc, start, socket):
    source = tmp_path / {"rust": "main.rs", "go": "main.go", "c": "main.c"}[language]
    text, count = re.subn(r'"(@?)app"', rf'"\g<1>{socket}"', block(language))
    assert count == 1
    source.write_text(text)
    program = tmp_path / "main"
    if language == "rust":
        libraries = ["--extern", f"memif={RELEASE}/libmemif.rlib", "-L", f"dependency={TARGET}/release/deps"]
        subprocess.run(["rustc", "--edition=2024", "-o", program, source, *libraries], check=True)
    elif language == "go":
        subprocess.run(["go", "build", "-o", program, source], cwd=ROOT / "libraries/go/memif", check=True)
    else:
        program = cc(source)
    # The client first: it has to try again until there is a server. Then a server that ends, and another.
    client = start(program)
    for _ in range(2):
        server = start(RELEASE / "examples/count", "server", f"@{socket}", "0", "send", "64")
        end = time.monotonic() + PATIENCE
        while not re.search(r"received (?!0\.000)", server.text()):
            assert time.monotonic() < end and client.poll() is None, (server.text(), client.text())
            time.sleep(0.05)
        server.kill()
        server.wait()
