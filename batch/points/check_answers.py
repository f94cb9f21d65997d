"""Check logged answers: compute each one again from the events below its positions, as `points` computes features."""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.batch.points.points import PublishedLog, looks_up, measures_at, of_table
from tandem.batch.points.spine import ROW, WINDOW, Spine
from tandem.batch.runtime import scratch
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.log.positions import Position
from tandem.ledger.logged_answers import LoggedAnswer
from tandem.views.arrow import arrays
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import microseconds
from tandem.views.kernel.rows import written
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.united_source import sources_of
from tandem.views.verify.compare import errors_of, tolerance
from tandem.views.view import View, answer_schema, approximations, bind

Positions = Mapping[str, Position]

BEYOND: Final = "beyond the published cut: archive and recompute first"
_DEFINITION: Final = "of another definition of the view than the published one"
_EXPIRED: Final = "of a window of which records have expired"
_LAYER: Final = "of the speed layer alone"
_RELEASE: Final = "of a release before its promotion"
_TABLE: Final = "of a table's rows, or of a view that looks up in a table"


@dataclass(frozen=True)
class AnswerDifference:
    """A logged answer that differs from the row computed from its events.

    Args:
        row: the computed row; None if the events give no row.
        measures: the names of the measures that differ.
    """

    answer: LoggedAnswer
    row: Mapping[str, Any] | None = field(hash=False)
    measures: tuple[str, ...]


@dataclass(frozen=True)
class CheckedAnswers:
    """The result of a check of logged answers.

    Args:
        publication: the number of the publication whose log was read.
        checked: by view, the number of answers that were computed again.
        differences: in the order of the logged answers.
        unchecked: by reason, the number of answers that could not be computed again.
        inexact: by view, the measures that are compared within their tolerance, or not at all if they are estimates.
    """

    publication: int
    checked: Mapping[str, int] = field(hash=False)
    differences: tuple[AnswerDifference, ...]
    unchecked: Mapping[str, int] = field(hash=False)
    inexact: Mapping[str, tuple[str, ...]] = field(hash=False)


def check_answers(batch: BatchRun, answers: Sequence[LoggedAnswer]) -> CheckedAnswers:
    """Compute the answers again, and compare. Raises TaskFailed, Unreadable, BadSpine for a key that does not fit its view."""
    log = PublishedLog.of(batch)
    definitions = project.load_files(log.release.files)
    reasons = [_refusal(log, definitions, answer) for answer in answers]
    chosen: dict[str, list[int]] = {}
    for number, (answer, reason) in enumerate(zip(answers, reasons, strict=True)):
        if reason is None:
            chosen.setdefault(answer.view, []).append(number)
    differences = dict[int, AnswerDifference]()
    for name, numbers in chosen.items():
        view = definitions.every_view[name]
        batch.say(f"{name}: {len(numbers)} answers")
        for chain in _chains(view, answers, numbers):
            scratch.clear(batch.tables)
            try:
                differences |= dict(_differences(log, view, answers, chain))
            finally:
                scratch.clear(batch.tables)
    return CheckedAnswers(
        log.live.number,
        {name: len(numbers) for name, numbers in chosen.items()},
        tuple(differences[number] for number in sorted(differences)),
        dict(Counter(reason for reason in reasons if reason is not None)),
        {name: names for name in chosen if (names := tuple(approximations(definitions.every_view[name])))},
    )


def _refusal(log: PublishedLog, definitions: Project, answer: LoggedAnswer) -> str | None:
    """The reason why an answer cannot be computed again; None if it can."""
    view = definitions.every_view.get(answer.view)
    if not answer.live:
        return _RELEASE
    if view is None or fingerprint(view) != answer.fingerprint:
        return _DEFINITION
    if answer.layer == "speed":
        return _LAYER
    if of_table(view) or looks_up(view):
        return _TABLE
    until = log.newest_expiry(view)
    if until is not None and answer.window is not None and datetime.fromisoformat(answer.window) <= until:
        return _EXPIRED
    ends = _positions(view, answer)
    return None if all(end.at_or_below(log.live.cut(source)) for source, end in ends.items()) else BEYOND


def _positions(view: View, answer: LoggedAnswer) -> Positions:
    return {source.name: Position.from_json(answer.positions.get(source.name, {})) for source in sources_of(view.source)}


@dataclass
class _Chain:
    """Answers with their distinct positions in order, each at or below the next."""

    positions: list[Positions]
    answers: list[tuple[int, int]]
    """The index of each answer, and that of its position in `positions`."""


def _chains(view: View, answers: Sequence[LoggedAnswer], numbers: Sequence[int]) -> list[_Chain]:
    """Divide the answers into chains: a single one, unless some of their positions have no order."""
    chains = list[_Chain]()
    ends = {number: _positions(view, answers[number]) for number in numbers}
    for number in sorted(numbers, key=lambda number: sum(sum(end.values()) for end in ends[number].values())):
        end = ends[number]
        chain = next((each for each in chains if _at_or_below(each.positions[-1], end)), None)
        if chain is None:
            chains.append(chain := _Chain([end], []))
        elif chain.positions[-1] != end:
            chain.positions.append(end)
        chain.answers.append((number, len(chain.positions) - 1))
    return chains


def _at_or_below(lower: Positions, upper: Positions) -> bool:
    return all(end.at_or_below(upper[source]) for source, end in lower.items())


def _differences(
    log: PublishedLog, view: View, answers: Sequence[LoggedAnswer], chain: _Chain
) -> Iterator[tuple[int, AnswerDifference]]:
    """The differences among the answers of a chain, each with the index of its answer."""
    some = [answers[number] for number, _ in chain.answers]
    keys = {name: _key_column([answer.key.get(name) for answer in some], key.type.arrow) for name, key in bind(view).keys}
    rows = pa.table(keys) if keys else pa.table({ROW: pa.nulls(len(some))})
    spine = Spine(rows, np.array([at for _, at in chain.answers], dtype=np.int64))
    windows = [None if answer.window is None else microseconds(datetime.fromisoformat(answer.window)) for answer in some]
    keyed = spine.with_keys(view, {}).append_column(WINDOW, pa.array(windows, pa.int64()))
    positions = {source.name: tuple(each[source.name] for each in chain.positions) for source in sources_of(view.source)}
    computed = dict[int, dict[str, Any]]()
    for table in measures_at(replace(log, positions=positions), keyed, view, tuple(view.measures), "append"):
        computed |= zip(table[ROW].to_pylist(), _rows(view, table), strict=True)
    for place, answer in enumerate(some):
        row = None if _is_gone(answer) else computed.get(place)
        if differing := _differing(view, answer, row):
            yield chain.answers[place][0], AnswerDifference(answer, row, differing)


def _is_gone(answer: LoggedAnswer) -> bool:
    """Whether the window had left its view, which has no row then, whatever events it had."""
    if answer.kept_from is None or answer.window is None:
        return False
    return datetime.fromisoformat(answer.window) < datetime.fromisoformat(answer.kept_from)


def _key_column(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Values of a key, as JSON writes them, in a column that can be cast to the key's type."""
    if pa.types.is_binary(arrow):
        return pa.array([None if value is None else b64decode(value) for value in values], pa.binary())
    texts = [None if value is None else str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    return pa.array(texts, pa.string())


def _rows(view: View, table: pa.Table) -> Iterator[dict[str, Any]]:
    schema = answer_schema(view)
    columns = [written(arrays.whole(table[name]), schema.field(name)) for name in view.measures]
    return (dict(zip(view.measures, values, strict=True)) for values in zip(*columns, strict=True))


def _differing(view: View, answer: LoggedAnswer, row: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The measures of an answer that differ from the computed ones; all of them if only one side has a row."""
    if answer.row is None or row is None:
        return () if answer.row is row else tuple(answer.row or row or ())
    inexact = approximations(view)
    return tuple(name for name, value in answer.row.items() if not _same(view, name, (value, row[name]), inexact))


def _same(view: View, name: str, values: tuple[Any, Any], inexact: Mapping[str, Any]) -> bool:
    if name not in inexact:
        return bool(values[0] == values[1])
    if inexact[name].error is not None:
        return True  # sketches that are merged in another order may give another estimate
    return not errors_of(*values, tolerance(view, name))[2]
