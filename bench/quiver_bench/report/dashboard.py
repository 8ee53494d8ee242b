"""The Dash app: the same tabs and figures as the static page, from results as they are at this moment."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode

from dash import Dash, Input, Output, State, ctx, dash_table, dcc, html, no_update

from quiver_bench.report import tables
from quiver_bench.report.figures import FIGURES, TABS
from quiver_bench.results.store import Store


def read_state(search: str | None) -> dict[str, Any]:
    """What is chosen, from the address after ``?``; what isn't there or isn't known is as at the start."""
    words = parse_qs((search or "").lstrip("?"))

    def some(name: str) -> list[str]:
        return [value for value in words.get(name, [""])[0].split(",") if value]

    tab = words.get("tab", ["trending"])[0]
    return {
        "tab": tab if tab in TABS else "trending",
        "suites": some("suites"),
        "devices": some("devices"),
        "normalise": words.get("normalise", [""])[0] == "1",
    }


def write_state(state: dict[str, Any]) -> str:
    """The address after ``?`` for what is chosen."""
    words = {"tab": state["tab"]}
    for name in ("suites", "devices"):
        if state[name]:
            words[name] = ",".join(state[name])
    if state["normalise"]:
        words["normalise"] = "1"
    return "?" + urlencode(words, safe=",")


def app(store: Store) -> Dash:
    """The app. It asks the store at every change, so new results show on reload."""
    made = Dash("quiver_bench", title="quiver-bench", update_title="")
    made.layout = lambda: _layout(store)
    _connect(made, store)
    return made


def _layout(store: Store) -> html.Div:
    rows = tables.coverage(store)
    suites = sorted({row["suite"] for row in rows})
    devices = sorted({row["device"] for row in rows})
    return html.Div(
        [
            dcc.Location(id="address", refresh=False),
            html.H2("quiver-bench"),
            dcc.Tabs(id="tab", value="trending", children=[dcc.Tab(label=TABS[tab], value=tab) for tab in TABS]),
            html.Div(
                [
                    dcc.Dropdown(suites, id="suites", multi=True, placeholder="all suites"),
                    dcc.Dropdown(devices, id="devices", multi=True, placeholder="all devices"),
                    dcc.Checklist([{"label": " normalise to 2 GHz", "value": "1"}], id="normalise", value=[]),
                    html.Button("download CSV", id="csv"),
                    dcc.Download(id="file"),
                ],
                style={
                    "display": "grid",
                    "gridTemplateColumns": "3fr 1fr auto auto",
                    "gap": "1rem",
                    "margin": "1rem 0",
                },
            ),
            html.Div(id="content"),
        ],
        style={"fontFamily": "system-ui, sans-serif", "padding": "0 1rem"},
    )


def _connect(made: Dash, store: Store) -> None:
    @made.callback(
        Output("tab", "value"),
        Output("suites", "value"),
        Output("devices", "value"),
        Output("normalise", "value"),
        Output("address", "search"),
        Input("address", "search"),
        Input("tab", "value"),
        Input("suites", "value"),
        Input("devices", "value"),
        Input("normalise", "value"),
    )
    def follow(search: str, tab: str, suites: list[str], devices: list[str], normalise: list[str]) -> tuple[Any, ...]:
        """The address follows what is chosen, and what is chosen follows an address that was opened."""
        if ctx.triggered_id in (None, "address"):
            state = read_state(search)
            return state["tab"], state["suites"], state["devices"], ["1"] if state["normalise"] else [], no_update
        state = {"tab": tab, "suites": suites or [], "devices": devices or [], "normalise": bool(normalise)}
        return no_update, no_update, no_update, no_update, write_state(state)

    @made.callback(
        Output("content", "children"),
        Input("tab", "value"),
        Input("suites", "value"),
        Input("devices", "value"),
        Input("normalise", "value"),
    )
    def content(tab: str, suites: list[str], devices: list[str], normalise: list[str]) -> Any:
        """The tab's figure or table."""
        if tab == "coverage":
            return _table([row for row in tables.coverage(store, bool(normalise)) if _shown(row, suites, devices)])
        figure = FIGURES[tab](store, bool(normalise), suites or None, devices or None)
        if not figure.data:
            return html.P("There are no such results.", id="empty")
        return dcc.Graph(figure=figure, id="figure", config={"displaylogo": False})

    @made.callback(
        Output("file", "data"),
        Input("csv", "n_clicks"),
        State("suites", "value"),
        State("devices", "value"),
        State("normalise", "value"),
        prevent_initial_call=True,
    )
    def download(clicks: int, suites: list[str], devices: list[str], normalise: list[str]) -> dict[str, Any]:
        """All results of what is chosen."""
        rows = [row for row in tables.everything(store, bool(normalise)) if _shown(row, suites, devices)]
        return {"content": tables.as_csv(rows), "filename": "quiver-bench.csv"}


def _shown(row: dict[str, Any], suites: list[str] | None, devices: list[str] | None) -> bool:
    return (not suites or row["suite"] in suites) and (not devices or row["device"] in devices)


def _table(rows: list[dict[str, Any]]) -> Any:
    def short(value: Any) -> Any:
        return float(f"{value:.5g}") if isinstance(value, float) else value

    return dash_table.DataTable(  # type: ignore[attr-defined]
        [{name: short(value) for name, value in row.items()} for row in rows],
        [{"name": name.replace("_", " "), "id": name} for name in tables.COLUMNS],
        id="table",
        sort_action="native",
        filter_action="native",
        page_size=40,
        style_cell={"textAlign": "left", "fontFamily": "system-ui, sans-serif", "fontSize": "13px"},
        style_table={"overflowX": "auto"},
    )
