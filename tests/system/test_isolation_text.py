"""Text from outside, wherever it is printed: it moves no cursor, begins no line, and passes for no other field."""

import json
import struct
import tomllib
import unicodedata

import pytest
from lab import eventually
from lab.process import run, tool
from lab.raw_memif import DISCONNECT, RawMemif

# What a terminal or a reader of logs is fooled by: escape sequences (7 and 8 bit), lines, other fields, directions.
EVIL = '\x1b[2J\x1b]0;title\x07\x9b31m"\nERROR quiverd: forged user=admin\r\u202eright\u2066to\u200bleft\u2028\x7f'
SHOWN = r'\x1b[2J\x1b]0;title\x07\u{9b}31m"\nERROR quiverd: forged user=admin\r\u{202e}right\u{2066}to\u{200b}left\u{2028}\x7f'


def toml(text):
    """A string of TOML."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def plain(text):
    """Fails for characters that show as something else; returns the text."""
    odd = {c for c in text if c != "\n" and unicodedata.category(c)[0] in "CZ" and c != " "}
    assert not odd, (odd, text)
    assert not [line for line in text.splitlines() if line.lstrip().startswith("ERROR quiverd: forged")], text
    return text


@pytest.fixture
def evil(lab, daemon):
    """A memif at a socket of such a name, in the abstract namespace, and one more object with free text."""
    daemon.apply(f'[[interface]]\nname = "m"\naddresses = ["10.7.0.1/24"]\nmemif = {{ socket = {toml("@" + EVIL)}, role = "server" }}\n')
    return daemon


SHOWS = [
    ("show", "interface"), ("show", "interface", "m"), ("show", "memif"), ("show", "memif", "m"), ("get",), ("get", "interface"),
    ("show", "runtime"), ("show", "drops"), ("show", "adjacency"), ("show", "fib"),
]  # fmt: skip


@pytest.mark.parametrize("words", SHOWS, ids="-".join)
def test_no_output_of_quiver_misleads(evil, words):
    for form in ("table", "json", "toml"):
        plain(evil.cli(*words, "-o", form).stdout)


def test_what_it_shows_is_what_there_is(evil):
    assert SHOWN in evil.cli("show", "memif", "m").stdout
    assert SHOWN in evil.cli("show", "interface").stdout, "why it is down names the socket"
    socket = "@" + EVIL
    assert json.loads(evil.cli("get", "-o", "json").stdout)["interface"][0]["memif"]["socket"] == socket
    text = evil.cli("get", "-o", "toml").stdout
    assert tomllib.loads(text)["interface"][0]["memif"]["socket"] == socket
    answer = evil.json("apply", "-f", "-", stdin=text)
    assert answer["counts"]["unchanged"] == 1, "what get prints can be applied again"


def test_changes_are_shown_in_lines_of_their_own(evil):
    changed = evil.cli("get", "-o", "toml").stdout.replace("title", "other")
    plain(evil.cli("diff", "-f", "-", stdin=changed, check=False).stdout)
    plain(evil.cli("apply", "--dry-run", "-f", "-", stdin=changed).stdout)


@pytest.mark.parametrize("words", [
    ("delete", "route", EVIL), ("delete", "interface", EVIL), ("show", "interface", EVIL), ("get", "interface", EVIL[:20]),
    ("show", "fib", EVIL), ("trace", "add", EVIL), ("pcap", "start", "-i", EVIL, "--write", "/dev/null"), ("show", "tenant", EVIL),
    ("show", "session", "--tenant", EVIL), ("explain", EVIL, "10.0.0.1", "tcp/80"), ("apply", "-f", EVIL),
], ids=lambda words: "-".join(words[:2]))  # fmt: skip
def test_no_error_of_quiver_misleads(evil, words):
    done = evil.cli(*words, check=False)
    assert done.returncode != 0
    plain(done.stdout + done.stderr)
    assert r"\x1b" in done.stdout + done.stderr or r"\u{1b}" in done.stdout + done.stderr, done


def test_where_quiverd_should_be_is_named_in_plain_characters(tmp_path):
    done = run(tool("quiver"), "--socket", tmp_path / EVIL, "get", check=False)
    assert done.returncode != 0 and r"\x1b" in plain(done.stdout + done.stderr)


def test_what_is_refused_is_named_in_plain_characters(daemon):
    for text in (
        f"[[interface]]\nname = {toml(EVIL)}\nloopback = {{}}\n",
        f'[[interface]]\nname = "x"\nmac = {toml(EVIL)}\nloopback = {{}}\n',
        f'[[interface]]\nname = "x"\ntap = {{ netns = {toml(EVIL)}, host_name = "t" }}\n',
        f"[[route]]\nprefix = {toml(EVIL)}\nnext_hops = [{{ interface = {toml(EVIL)} }}]\n",
    ):
        done = daemon.cli("apply", "-f", "-", stdin=text, check=False)
        assert done.returncode != 0
        assert r"\x1b" in plain(done.stdout + done.stderr) or r"\u{1b}" in done.stdout + done.stderr, done


def test_metrics_have_no_control_characters(evil):
    _, text = evil.scrape()
    plain(text)


def test_a_peers_words_are_one_quoted_value_of_one_line(lab, daemon):
    daemon.apply(lab.memif("bad", 66))
    words = 'bye" user=admin\x1b[2J\n2026-01-01T00:00:00Z ERROR quiverd: forged \u202e\xff'
    with RawMemif(f"{lab.directory}/bad") as peer:
        peer.connect()
        eventually(lambda: daemon.memif("bad").get("connected"), "it is connected")
        peer.send(DISCONNECT, struct.pack("<I96s", 7, words.encode()))
        eventually(lambda: "bye" in daemon.memif("bad").get("last_disconnect", ""), "it has gone")
    log = daemon.log()[daemon.mark :]
    plain(log)
    [line] = [line for line in log.splitlines() if "bye" in line]
    before, _, after = line.partition('reason="')
    assert after, line
    value = after.replace('\\"', "").partition('"')[0]
    assert "user=admin" in value and "user=admin" not in before, line
    plain(daemon.cli("show", "memif", "bad").stdout)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_of_the_log_misleads(own_daemon, form):
    daemon = own_daemon(extra=f'[log]\nformat = "{form}"\nlevel = "debug"\n').start()
    daemon.offer(f'[[interface]]\nname = "m"\nmemif = {{ socket = {toml("@" + EVIL)}, role = "server" }}\n')
    daemon.offer(f'[[interface]]\nname = "t"\ntap = {{ netns = {toml("/tmp/" + EVIL)}, host_name = "t" }}\n')
    daemon.offer(f'[[interface]]\nname = "p"\npcap = {{ read = {toml("/tmp/" + EVIL)} }}\n')
    daemon.stop()
    log = plain(daemon.log())
    if form == "json":
        for line in log.splitlines():
            assert isinstance(json.loads(line)["level"], str), line


def test_an_error_of_quiverd_itself_is_plain(own_daemon):
    daemon = own_daemon()
    path = f"{daemon.directory}/{EVIL}/quiver.sock".replace("/title", "")
    daemon.settings.write_text(f"[api]\nsocket = {toml(path)}\n[state]\ndirectory = {toml('/dev/null/' + EVIL)}\n")
    for more in ((), ("--check",)):
        done = run(tool("quiverd"), "--config", daemon.settings, *more, check=False)
        assert done.returncode == 1
        assert r"\x1b" in plain(done.stdout + done.stderr)
