"""`tandem points`: the measures of views as they were answered at given times, as features of a training set."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow.parquet as pq
import typer

from tandem.batch.points.fold_points import Known
from tandem.batch.points.points import BadFeatures, Points, points
from tandem.batch.points.spine import load_spine
from tandem.cli.batch import checked_answers
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.views.counted import counted
from tandem.views.errors import TandemError

FILE: Final = "points.parquet"
"""The name of the file that a run writes."""


def run(
    call: Call,
    *,
    spine: Annotated[
        Path | None,
        typer.Argument(metavar="SPINE", help="A file of Parquet or CSV, or a folder of Parquet files, with keys and times."),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the time of each row.")] = None,
    features: Annotated[str | None, typer.Option(metavar="VIEW.MEASURE,...", help="The measures that each row gets.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where points.parquet is written.")] = None,
    knowledge: Annotated[
        Known,
        typer.Option(
            "--known",
            help="append: a row knows what the log had at its time. event: all events that had happened by then, also those "
            "that came later.",
        ),
    ] = "append",
    key: Annotated[
        list[str] | None, typer.Option(metavar="KEY=COLUMN", help="The column of a key with another name; may be repeated.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse times after a view's watermark at the published cut.")] = False,
    check: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Instead: compute the answers of a log of serving.log_answers again, and compare."),
    ] = None,
) -> Output:
    """Give each row of SPINE the measures that its keys had at its time, in the window that the time is in.

    A row gets the answer of its time: events that arrived later do not count, even if they had happened before. Of an event's
    duplicates the one counts that counted then. NULL means that the view had no row then. The same publication gives the same
    file.

    The events are those below the published cut: recompute first for later times. The rows keep their order and columns. Nothing
    is published.

    `--check logs/answers.log` computes the answers that a server logged again, each from the events at its positions, also those
    of the log's earlier files. It lists those that differ; then the exit code is 1.
    """
    parameters = {"SPINE": spine, "--time": time, "--features": features, "--out": out}
    choices = {"--known": knowledge != "append", "--key": key, "--strict": strict}
    if check is not None:
        if others := [name for name, value in {**parameters, **choices}.items() if value]:
            raise TandemError(f"--check cannot be combined with {', '.join(others)}", code="usage-invalid")
        return checked_answers.run(call, check)
    if spine is None or time is None or features is None or out is None:
        missing = ", ".join(name for name, value in parameters.items() if value is None)
        raise TandemError(f"`tandem points` needs {missing}, or --check LOG alone", code="usage-invalid")
    wanted, columns, file = _features(features), _columns(key or ()), out / FILE
    if file.exists():
        raise TandemError(f"{file} exists; name another folder with --out, or delete it", code="file-unusable")
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise TandemError(f"{there} is not a folder that can be written; name another with --out", code="file-unusable")
    rows = load_spine(spine, time)
    with batch_run(call, "points") as batch:
        computed = points(batch, rows, wanted, columns=columns, knowledge=knowledge, strict=strict)
    return save(file, computed, knowledge)


def save(file: Path, computed: Points, knowledge: Known) -> Output:
    """Write the file, all or nothing, with the publication in its metadata."""
    rows, origin = computed.rows, _origin(computed, knowledge)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        pq.write_table(rows.replace_schema_metadata({"tandem": json.dumps(origin, sort_keys=True)}), partial)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    empty = {name: rows[name].null_count for name in computed.features}
    document = {"file": str(file), "rows": rows.num_rows, "features": list(computed.features), "empty": empty, **origin}
    lines = [
        f"{file}: {counted(rows.num_rows, 'row')} with {counted(len(empty), 'feature')}, of publication {origin['publication']}",
        *(f"{name}: {counted(number, 'row')} without a value" for name, number in empty.items() if number),
    ]
    return Output(document, "\n".join(lines))


def _features(text: str) -> Mapping[str, Sequence[str]]:
    """The measures by view. Raises BadFeatures."""
    wanted: dict[str, list[str]] = {}
    for name in text.split(","):
        view, dot, measure = name.strip().partition(".")
        if not (view and dot and measure) or measure in wanted.get(view, ()):
            raise BadFeatures(f"--features has {name.strip()!r}; expected a view and a measure, each once, such as sales.orders")
        wanted.setdefault(view, []).append(measure)
    return wanted


def _columns(texts: Sequence[str]) -> Mapping[str, str]:
    columns = dict[str, str]()
    for text in texts:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise BadFeatures(f"--key has {text!r}; expected a key and a column, such as city=town")
        if name in columns:
            raise BadFeatures(f"--key names two columns of key {name!r}: {columns[name]} and {column}")
        columns[name] = column
    return columns


def _origin(computed: Points, knowledge: Known) -> dict[str, Any]:
    live = computed.publication
    cuts = {source: cut.to_json() for source, cut in live.cuts.items()}
    return {"publication": live.number, "release": live.release, "cuts": cuts, "known": knowledge}
