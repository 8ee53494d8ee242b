"""Where results are kept: one JSON document each, and the same flattened as Parquet. Nothing is ever overwritten."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from quiver_bench import latency
from quiver_bench.errors import BadInput, NotKept
from quiver_bench.results.text import text_of

#: With what a document ends.
_END = b"\n}\n"

#: With what a Parquet file begins and ends.
_PARQUET = b"PAR1"

#: Fields of documents that hold others, by their names, each with what it must be where it is there.
_NESTED = {
    "machine": dict,
    "containers": dict,
    "result": dict,
    "result.latency_forward": dict,
    "result.latency_reverse": dict,
    "hosts": list,
    "tags": list,
    "remarks": list,
    "telemetry": list,
    "trials": list,
}

#: Columns of the Parquet files, with DuckDB's types; nested fields are joined by ``_`` as in CSIT's.
COLUMNS: dict[str, str] = {
    "version": "VARCHAR",
    "dut_type": "VARCHAR",
    "dut_version": "VARCHAR",
    "device": "VARCHAR",
    "device_note": "VARCHAR",
    "tg_type": "VARCHAR",
    "tg_version": "VARCHAR",
    "hosts": "VARCHAR[]",
    "start_time": "TIMESTAMP",
    "end_time": "TIMESTAMP",
    "duration": "DOUBLE",
    "test_id": "VARCHAR",
    "test_name_long": "VARCHAR",
    "test_name_short": "VARCHAR",
    "test_type": "VARCHAR",
    "suite": "VARCHAR",
    "area": "VARCHAR",
    "frame_size": "VARCHAR",
    "core": "VARCHAR",
    "tags": "VARCHAR[]",
    "passed": "BOOLEAN",
    "message": "VARCHAR",
    "telemetry": "VARCHAR[]",
    "commit": "VARCHAR",
    "placement": "VARCHAR",
    "generator_limited": "BOOLEAN",
    "irregular": "BOOLEAN",
    "remarks": "VARCHAR[]",
    "direction": "VARCHAR",
    "effort": "VARCHAR",
    "samples": "INTEGER",
    "command": "VARCHAR",
    "machine_host": "VARCHAR",
    "machine_cpu": "VARCHAR",
    "machine_cores": "INTEGER",
    "machine_mhz": "DOUBLE",
    "machine_kernel": "VARCHAR",
    "machine_memory_gib": "INTEGER",
    "result_receive_rate_rate_values": "DOUBLE[]",
    "result_receive_rate_rate_avg": "DOUBLE",
    "result_receive_rate_rate_stdev": "DOUBLE",
    "result_receive_rate_rate_unit": "VARCHAR",
    "result_receive_rate_bandwidth_values": "DOUBLE[]",
    "result_receive_rate_bandwidth_avg": "DOUBLE",
    "result_receive_rate_bandwidth_stdev": "DOUBLE",
    "result_ndr_lower_rate_value": "DOUBLE",
    "result_ndr_upper_rate_value": "DOUBLE",
    "result_pdr_lower_rate_value": "DOUBLE",
    "result_pdr_upper_rate_value": "DOUBLE",
    "result_critical_rate_lower_rate_value": "DOUBLE",
    "result_critical_rate_upper_rate_value": "DOUBLE",
    "result_loss_packet_value": "DOUBLE",
    "result_loss_time_value": "DOUBLE",
    "result_loss_without_value": "DOUBLE",
    "result_aggregate_rate_rate_value": "DOUBLE",
    "result_loss_sent_value": "DOUBLE",
    "result_flood_rate_avg": "DOUBLE",
    "result_revisit_avg": "DOUBLE",
    "result_latency_percentiles_50": "DOUBLE",
    "result_latency_percentiles_99_9": "DOUBLE",
    "result_longest_round_value": "DOUBLE",
    "result_calm_loss_packet_value": "DOUBLE",
    "result_calm_loss_sent_value": "DOUBLE",
    "result_calm_latency_percentiles_50": "DOUBLE",
    "result_calm_latency_percentiles_99_9": "DOUBLE",
    "result_idle_share_value": "DOUBLE",
    "result_idle_woken_value": "DOUBLE",
    "result_latency_forward_pdr_0_avg": "DOUBLE",
    "result_latency_forward_pdr_10_avg": "DOUBLE",
    "result_latency_forward_pdr_50_avg": "DOUBLE",
    "result_latency_forward_pdr_90_avg": "DOUBLE",
    **dict.fromkeys(latency.COLUMNS, "DOUBLE"),
    "result_a_median": "DOUBLE",
    "result_b_median": "DOUBLE",
    "result_a_generator_limited": "BOOLEAN",
    "result_b_generator_limited": "BOOLEAN",
    "result_ratio_median": "DOUBLE",
    "result_ratio_low": "DOUBLE",
    "result_ratio_high": "DOUBLE",
    "result_pairs": "INTEGER",
    "result_verdict": "VARCHAR",
    "other_device": "VARCHAR",
    "other_commit": "VARCHAR",
    "other_dut_version": "VARCHAR",
}


class Store:
    """A directory of results: ``json/YYYY/MM/DD/….json``, ``parquet/test_type=…/….parquet``, ``logs/``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        #: Files with which something is wrong that was said.
        self._damaged: set[Path] = set()

    def ready(self) -> Store:
        """Itself, once it can be written to. Raises :class:`BadInput`: not after an hour of measuring."""
        try:
            for kind in ("json", "parquet"):
                (self.directory / kind).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--results {self.directory}: results can't be kept there: {error.strerror}") from error
        if not os.access(self.directory / "json", os.W_OK):
            raise BadInput(f"--results {self.directory}: results can't be kept there: it can't be written to")
        return self

    def empty(self) -> bool:
        """Whether there are no results."""
        return not any((self.directory / "json").rglob("*.json"))

    def add(self, document: dict[str, Any], log: str = "") -> Path:
        """Keeps a document under a name of its own, and what a device said before it died beside it; returns where.

        Raises :class:`NotKept`, with nothing left of it, where it can't be written.
        """
        name = self._name(document)
        day = document["start_time"][:10].split("-")
        path = self.directory.joinpath("json", *day, f"{name}.json")
        try:
            if log.strip():
                document["log"] = f"logs/{name}.log"
                _write_new(self.directory / document["log"], log)
            _write_new(path, text_of(document))
        except OSError as error:
            if kept := document.pop("log", ""):
                with contextlib.suppress(OSError):
                    (self.directory / kept).unlink(missing_ok=True)
            raise NotKept(f"it could not be kept in {self.directory}: {error.strerror or error}") from error
        try:
            self._add_row(document, name)
        except (OSError, duckdb.Error) as error:
            print(f"quiver-bench: {path}: no Parquet file could be written of it: {error}", file=sys.stderr)
        return path

    def documents(self) -> list[dict[str, Any]]:
        """All documents, oldest first."""
        read = ((path, self._document(path)) for path in sorted((self.directory / "json").rglob("*.json")))
        found = [{**document, "path": str(path)} for path, document in read if document is not None]
        return sorted(found, key=lambda document: document["start_time"])

    def rows(self) -> duckdb.DuckDBPyConnection:
        """A database with a view ``results`` of all rows: those of Parquet files and, where one is missing, damaged or from before
        a column came, of documents."""
        database = duckdb.connect()
        # Files of which there is no document may lack columns that came later: an empty table has them all.
        database.execute(f"CREATE TABLE declared ({_declared()})")
        files = [file for file in sorted((self.directory / "parquet").rglob("*.parquet")) if self._readable(file)]
        try:
            _read(database, files)
        except duckdb.Error:  # whichever it is
            files = [file for file in files if self._readable(file, whole=True)]
            _read(database, files)
        kept, older = {file.stem for file in files}, _older(database, files)
        for path in sorted((self.directory / "json").rglob("*.json")):
            if path.stem in kept and (not self._look_at_end(path) or path.stem not in older):
                continue
            if (document := self._document(path)) is not None:
                try:
                    _insert(database, document)
                except duckdb.Error as error:
                    self._leave_out(path, error)
                    continue
                if path.stem in kept:
                    database.execute("DELETE FROM files WHERE filename = ?", [str(older[path.stem])])
        database.execute(
            "CREATE VIEW results AS SELECT * FROM declared UNION ALL BY NAME SELECT * EXCLUDE (filename) FROM files"
        )
        return database

    def _document(self, path: Path) -> dict[str, Any] | None:
        """What a file holds; None, and that it is left out is said, where that is no document."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            # Whatever else is missing is an empty field.
            wanted = ("start_time", "suite", "device", "test_type")
            lacking = [field for field in wanted if not isinstance(document.get(field), str)]
            if lacking:
                raise ValueError(f"it has no {', '.join(lacking)}")
            _check_nested(document)
            datetime.fromisoformat(document["start_time"])
        except (OSError, ValueError, AttributeError) as error:
            self._leave_out(path, f"it is no document of a result: {error}")
            return None
        return dict(document)

    def _readable(self, path: Path, whole: bool = False) -> bool:
        """Whether it is Parquet: by its beginning and its end, where what it holds is told; or ``whole``, by reading all of it."""
        try:
            if whole:
                _read(duckdb.connect(), [path])
                return True
            with path.open("rb") as file:
                begins = file.read(len(_PARQUET)) == _PARQUET
                file.seek(-len(_PARQUET), os.SEEK_END)
                if begins and file.read() == _PARQUET:
                    return True
        except (OSError, duckdb.Error):
            pass
        self._leave_out(path, "it isn't a whole Parquet file (its document is read instead, if that is there)")
        return False

    def _look_at_end(self, path: Path) -> bool:
        """Whether a document is whole; says where it was cut short, though its row in Parquet is whole: its trials are lost."""
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - len(_END)))
                if file.read() == _END:
                    return True
        except OSError as error:
            self._leave_out(path, error)
            return False
        self._say(path, "is cut short: its row in Parquet is whole, and is shown")
        return False

    def _leave_out(self, path: Path, reason: object) -> None:
        """Says what can't be read: a damaged file, as a full disk leaves, keeps nobody from the others."""
        self._say(path, f"is left out: {reason}")

    def _say(self, path: Path, what: str) -> None:
        """Says once what is wrong with a file."""
        if path not in self._damaged:
            self._damaged.add(path)
            print(f"quiver-bench: {path} {what}", file=sys.stderr)

    @staticmethod
    def _name(document: dict[str, Any]) -> str:
        moment = document["start_time"].replace(":", "").replace("-", "").replace(".", "")
        device = re.sub(r"[/\s]", "_", document["device"])
        return f"{moment}-{device}-{document['suite']}-{document['test_type']}-{secrets.token_hex(3)}"

    def _add_row(self, document: dict[str, Any], name: str) -> None:
        path = self.directory / "parquet" / f"test_type={document['test_type']}" / f"{name}.parquet"
        with _whole(path) as partial, duckdb.connect() as database:
            database.execute(f"CREATE TABLE declared ({_declared()})")
            _insert(database, document)
            database.execute("COPY declared TO $path (FORMAT parquet, COMPRESSION snappy)", {"path": str(partial)})


def _insert(database: duckdb.DuckDBPyConnection, document: dict[str, Any]) -> None:
    """A document's row, into the table ``declared``. Times are UTC, and stand there without a zone."""
    flat = flatten(document)
    values = [flat.get(column) for column in COLUMNS]
    values = [
        value.removesuffix("Z") if COLUMNS[column] == "TIMESTAMP" and isinstance(value, str) else value
        for column, value in zip(COLUMNS, values, strict=True)
    ]
    database.execute(f"INSERT INTO declared VALUES ({', '.join('?' * len(COLUMNS))})", values)


def _read(database: duckdb.DuckDBPyConnection, files: list[Path]) -> None:
    """Makes the table ``files`` of all that Parquet files hold, with their names: read here, so that one that is damaged inside
    fails here."""
    names = [str(file) for file in files]
    options = "union_by_name = true, hive_partitioning = false, filename = true"
    source = f"* FROM read_parquet({names!r}, {options})" if names else "*, '' AS filename FROM declared"
    database.execute(f"CREATE TABLE files AS SELECT {source}")


def _older(database: duckdb.DuckDBPyConnection, files: list[Path]) -> dict[str, Path]:
    """Those that lack a column of today's, by their stems."""
    if not files:
        return {}
    names = [str(file) for file in files]
    # Lists have a name for their elements besides, which is no column.
    schema = f"SELECT file_name, count(*) FILTER (name IN {tuple(COLUMNS)!r}) AS there FROM parquet_schema({names!r}) GROUP BY file_name"
    found = database.execute(f"SELECT file_name FROM ({schema}) WHERE there < {len(COLUMNS)}").fetchall()
    return {Path(name).stem: Path(name) for (name,) in found}


def flatten(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by names joined with ``_``, which stands for points in them, too."""
    flat: dict[str, Any] = {}
    for key, value in document.items():
        name = prefix + key.replace(".", "_")
        if isinstance(value, dict):
            flat |= flatten(value, f"{name}_")
        else:
            flat[name] = value
    return flat


def _check_nested(document: dict[str, Any]) -> None:
    """Raises :class:`ValueError` where a field that holds others is something else: readers take them for what they are."""
    for name, kind in _NESTED.items():
        *outer, field = name.split(".")
        holder = document
        for key in outer:
            holder = holder.get(key, {})
        if not isinstance(holder.get(field, kind()), kind):
            raise ValueError(f"its {name} is no {'object' if kind is dict else 'array'}")
    for way in ("latency_forward", "latency_reverse"):
        for share, values in document.get("result", {}).get(way, {}).items():
            points = values.get("percentiles", {}) if isinstance(values, dict) else None
            if not isinstance(points, dict):
                raise ValueError(f"its result.{way}.{share} has no percentiles")
            for at, value in points.items():
                if not isinstance(value, int | float):
                    raise ValueError(f"its result.{way}.{share} has no number at {float(at):g} %")


def _declared() -> str:
    return ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())


def _write_new(path: Path, text: str) -> None:
    """Writes a file that must not exist yet, whole or not at all."""
    with _whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Where to write a file: it gets its name, which must not be taken, once it is whole. Else nothing is left of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    try:
        yield partial
        os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
