"""Pages: written, opened in a real browser, and read there."""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from datetime import timedelta

import pytest
from conftest import MRR, NDRPDR, START, comparison, document, need, quiet

from quiver_bench.commands.main import main
from quiver_bench.errors import BadInput
from quiver_bench.methods import mrr
from quiver_bench.report import dashboard, html, markdown, tables
from quiver_bench.report.figures import FIGURES
from quiver_bench.simulated import Simulated

CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1300,1000",
]


def browse(url, tmp_path, *more):
    """The document as a real browser has made it of a page."""
    profile = tmp_path / "profile"
    command = [
        need("chromium"),
        *CHROMIUM,
        f"--user-data-dir={profile}",
        "--virtual-time-budget=15000",
        *more,
        "--dump-dom",
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_tables_replace_what_stands_between_the_marks(store, tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(f"# Title\nbefore\n{markdown.BEGIN}\nof before\n{markdown.END}\nafter\n")
    markdown.update(store, page)
    text = page.read_text()
    assert text.startswith("# Title\nbefore\n")
    assert text.endswith("after\n")
    assert "of before" not in text
    assert re.search(rf"\| `{MRR}` \| quiver \| testpmd \| near \|.*\*\*2\.00\*\*", text)
    assert "Mpps" in text
    first = text
    markdown.update(store, page)
    assert page.read_text() == first, "the same results make the same page"


def test_each_row_names_the_command_that_it_came_of(store):
    for day, pairs in ((30, 9), (31, 5)):
        kept = comparison(START + timedelta(days=day), pairs=pairs)
        store.add(kept | {"command": f"bin/quiver-bench compare --pairs {pairs}", "effort": f"{pairs} pairs"})
    shown = markdown.tables(store)
    for pairs in (9, 5):
        rows = re.findall(rf"^\| `{MRR}` \| quiver \| testpmd .*\| {pairs} \|.*\| (\d+) \|$", shown, re.M)
        assert f"bin/quiver-bench compare --pairs {pairs}  # {rows[-1]}\n" in shown


def test_the_median_and_the_slowest_of_a_thousand_stand_where_the_mean_says_neither(store):
    (line,) = [line for line in markdown.tables(store).splitlines() if line.startswith(f"| `{NDRPDR}`")]
    each = ", ".join(["6.0 / 41.0"] * 4)
    assert f" Mpps; p50 / p99.9 at 0, 10, 50, 90 % of PDR: {each} µs |" in line
    assert "6.5" not in line, "which is the mean"
    (row,) = [row for row in tables.coverage(store) if row["suite"] == NDRPDR]
    assert (row["p50_us"], row["p99_9_us"]) == (6.0, 41.0)
    (row,) = [row for row in tables.coverage(store, normalise=True) if row["suite"] == NDRPDR]
    assert row["p50_us"] == pytest.approx(6.0 * row_mhz(store) / 2000)


def row_mhz(store):
    """The clock of the machine that all documents are of."""
    (mhz,) = {document["machine"]["mhz"] for document in store.documents()}
    return mhz


def test_what_five_pairs_say_is_no_verdict(store, tmp_path):
    store.add(comparison(START + timedelta(days=30), pairs=5))
    shown = markdown.tables(store)
    assert re.search(rf"\| `{MRR}` \| quiver \| testpmd .*\| – \| 5 \| no verdict: too few pairs \|", shown)
    assert "A is faster" not in shown


def test_the_table_says_where_the_generators_limit_is_not_known(store):
    (figure,) = mrr.measure(Simulated(60e6, 1e4, limit_known=False, copies=3), quiet, trials=2)
    store.add(document(figure, "64b-1c-tap-ethip4-ip4base-mrr"))
    (line,) = [line for line in markdown.tables(store).splitlines() if line.startswith("| `64b-1c-tap")]
    assert (
        "generator limit unknown, irregular, fewer than 3 trials, packets came twice, or more came than was sent"
        in line
    )


def test_the_mark_of_the_generator_stands_at_the_figure_that_it_limits(store):
    kept = comparison(START + timedelta(days=30))
    kept["result"]["a"]["generator_limited"], kept["result"]["b"]["generator_limited"] = False, True
    kept["other"] |= {"dut_version": "22.11", "commit": ""}
    store.add(kept)
    (line,) = [line for line in markdown.tables(store).splitlines() if line.startswith(f"| `{MRR}` | quiver | testpmd")]
    assert re.search(r"\| testpmd 22\.11 \| near \| [\d.]+ Mpps \| [\d.]+ Mpps ¹ \|", line)


def test_each_bar_of_clocks_and_each_curve_is_one_result(store):
    kept = [comparison(START + timedelta(days=at)) for at in (30, 31)]
    kept[1]["other"]["device"] = "floor"
    for document_ in kept:
        document_["telemetry"] = ['node_clocks_per_packet{node="ip4-lookup"} 7.0 1']
        store.add(document_)
    bars = [trace.y[0] for trace in FIGURES["clocks"](store).data if trace.name == "ip4-lookup"]
    assert len(bars) == len(set(bars)) >= 2
    curves = [trace.name for trace in FIGURES["latency"](store).data]
    assert len(curves) == len(set(curves)) > 0
    rows = [trace.y[0] for trace in FIGURES["comparisons"](store).data]
    assert len(rows) == len(set(rows))


def test_a_page_that_is_not_there_is_made(store, tmp_path):
    page = tmp_path / "page.md"
    markdown.update(store, page)
    made = page.read_text()
    assert made.startswith("# ") and "| suite |" in made
    markdown.update(store, page)
    assert page.read_text() == made


def test_a_page_without_marks_is_left_alone(store, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n")
    with pytest.raises(BadInput, match="has no lines"):
        markdown.update(store, page)
    assert page.read_text() == "text\n"


@pytest.mark.parametrize("tab", FIGURES)
def test_each_figure_shows_the_results(store, tab):
    figure = FIGURES[tab](store)
    assert figure.data
    assert {trace.meta["device"] for trace in figure.data} == {"quiver"}
    assert not FIGURES[tab](store, suites=["another"]).data


def test_state_survives_the_address():
    state = {"tab": "clocks", "suites": [MRR, "x-y"], "devices": ["quiver"], "normalise": True}
    assert dashboard.read_state(dashboard.write_state(state)) == state
    assert dashboard.read_state("?tab=<script>&suites=")["tab"] == "trending"
    assert dashboard.read_state(None) == {"tab": "trending", "suites": [], "devices": [], "normalise": False}


@pytest.mark.browser
def test_the_static_page_in_a_browser(store, tmp_path):
    page = html.write(store, tmp_path / "pages").as_uri()
    shot = os.environ.get("QUIVER_BENCH_SCREENSHOT")
    seen = browse(f"{page}#tab=trending", tmp_path, *([f"--screenshot={shot}"] if shot else []))
    assert 'data-shown="trending:11"' in seen, "samples and groups of five series, one regression"
    assert "main-svg" in seen, "Plotly has drawn"
    seen = browse(f"{page}#tab=coverage&devices=quiver&normalise=1", tmp_path)
    assert 'data-shown="coverage:3"' in seen
    assert MRR in seen
    seen = browse(f"{page}#tab=comparisons&suites=another", tmp_path)
    assert 'data-shown="comparisons:0"' in seen
    assert (tmp_path / "pages" / "results.csv").read_text().count("\n") == 15


@pytest.mark.browser
def test_the_dashboard_in_a_browser(store, tmp_path):
    need("chromium")
    command = [sys.executable, "-m", "quiver_bench", "dash", "--port", "18950", "--results", str(store.directory)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                urllib.request.urlopen("http://127.0.0.1:18950/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.2)
        seen = browse("http://127.0.0.1:18950/?tab=coverage", tmp_path)
        assert MRR in seen
        shot = os.environ.get("QUIVER_BENCH_SCREENSHOT_DASH")
        seen = browse("http://127.0.0.1:18950/?tab=clocks", tmp_path, *([f"--screenshot={shot}"] if shot else []))
        assert "main-svg" in seen
        assert "ip4-lookup" in seen
    finally:
        server.terminate()
        server.wait(10)


def test_a_dashboard_of_nothing_is_refused(tmp_path, capsys):
    assert main(["dash", "--results", str(tmp_path / "none")]) == 2
    assert f"there are no results in {tmp_path / 'none'}" in capsys.readouterr().err


def test_trends_and_lists_as_commands(store, capsys):
    assert main(["trend", "--results", str(store.directory)]) == 0
    assert "regression at c00000000008" in capsys.readouterr().out
    assert main(["list", "FIB_2M"]) == 0
    assert "64b-1c-memif-ethip4-ip4scale2m-rnd-mrr" in capsys.readouterr().out
    assert main(["list", "ip4scale2m-rnd"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 10 and all("ip4scale2m-rnd" in line for line in lines), "a part of a name says enough"
