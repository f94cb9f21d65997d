"""`check --laws` finds measures whose answers depend on how events are split, with a counterexample."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main

DEFINITIONS = """
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from tandem import CustomMeasure, Event, Source, View, count


class Reading(Event):
    at: datetime
    wh: int


@dataclass(frozen=True)
class Average(CustomMeasure):
    expression: str
    state = STATE
    answer = pa.float64()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([self.of([row["v0"] for row in rows]) for rows in groups.to_pylist()], self.state)

    METHODS

    def strategy(self):
        from hypothesis import strategies as st

        return st.tuples(st.integers(0, 100))


readings = Source(topic="readings", event=Reading, event_time="at")
plain = View(readings, measures={"n": count()})
averages = View(readings, measures={"mean": Average("wh"), "some": Average("wh").filtered("wh > 1")})
SOURCES = (readings,)
VIEWS = (plain, averages)
"""
LAWLESS = """def of(self, values):
        return sum(values) / len(values)

    def merge(self, groups):
        return pa.array([sum(means) / len(means) for means in groups.to_pylist()])

    def present(self, states):
        return states
"""
LAWFUL = """def of(self, values):
        return {"n": len(values), "sum": sum(values)}

    def merge(self, groups):
        added = [{name: sum(one[name] for one in states) for name in ("n", "sum")} for states in groups.to_pylist()]
        return pa.array(added, self.state)

    def present(self, states):
        return pa.compute.divide(states.field("sum").cast(pa.float64()), states.field("n"))
"""


def project(folder: Path, methods: str) -> str:
    """A project with one measure of its own, in two places."""
    state = "pa.float64()" if methods is LAWLESS else 'pa.struct([("n", pa.int64()), ("sum", pa.int64())])'
    (folder / "tandem.toml").touch()
    (folder / "definitions.py").write_text(DEFINITIONS.replace("STATE", state).replace("METHODS", methods))
    return str(folder)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_lawful_measure_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "check", "--laws", "--project", project(tmp_path, LAWFUL))
    assert code == 0
    assert found["laws"] == {"averages": {"mean": None, "some": None}}
    assert main(["check", "--laws", "--project", str(tmp_path)]) == 0
    assert "averages.mean: no counterexample found" in capsys.readouterr().out


@pytest.mark.slow
def test_a_mean_of_means_fails_with_the_smallest_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "check", "--laws", "--project", project(tmp_path, LAWLESS))
    assert code == 1
    broken = found["laws"]["averages"]["mean"]
    assert broken.startswith("broken law: merge is associative: for rows [(0,)], [(0,)] and [(1,)], ")
    assert main(["check", "--laws", "--project", str(tmp_path)]) == 1
    assert f"averages.some: {broken}" in capsys.readouterr().out


def test_without_the_option_no_law_is_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "check", "--project", project(tmp_path, LAWLESS))
    assert (code, "laws" in found) == (0, False)
    assert found["views"]["averages"]["measures"]["mean"]["measure"] == 'Average("wh")'


def test_a_missing_strategy_is_one_sentence_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path, LAWFUL.replace("def of", "strategy = CustomMeasure.strategy\n\n    def of"))
    text = (tmp_path / "definitions.py").read_text()
    (tmp_path / "definitions.py").write_text(text.replace("def strategy(self)", "def unused(self)"))
    code, found = run(capsys, "check", "--laws", "--project", place)
    assert code == 1
    assert found["error"].startswith("view 'averages', measure 'mean': Average has no method 'strategy'")


PREPARED = """
from datetime import datetime

import pyarrow as pa
from tandem import Event, Source, View, count


class Line(Event):
    at: datetime
    text: str


def numbered(lines):
    return lines.append_column("number", pa.array(NUMBERS, pa.int64()))


lines = Source(topic="lines", event=Line, event_time="at", prepare=numbered)
sizes = View(lines, keys={"size": "number"}, measures={"n": count()})
SOURCES = (lines,)
VIEWS = (sizes,)
"""


@pytest.mark.slow
def test_a_source_that_treats_each_event_independently_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path, LAWFUL)
    (tmp_path / "definitions.py").write_text(PREPARED.replace("NUMBERS", '[len(one) for one in lines["text"].to_pylist()]'))
    code, found = run(capsys, "check", "--laws", "--project", place)
    assert (code, found["laws"], found["prepare"]) == (0, {}, {"lines": None})
    columns = {"at": "timestamp[us, tz=UTC]", "text": "string", "number": "int64"}
    assert found["sources"]["lines"]["prepare"] == {"function": "numbered", "columns": columns}
    assert main(["check", "--laws", "--project", place]) == 0
    shown = capsys.readouterr().out
    assert "  prepared by numbered:\n    at: timestamp" in shown
    assert "lines.prepare: no counterexample found" in shown


def test_a_source_that_reads_other_events_fails_with_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path, LAWFUL)
    (tmp_path / "definitions.py").write_text(PREPARED.replace("NUMBERS", "range(len(lines))"))
    code, found = run(capsys, "check", "--laws", "--project", place)
    assert code == 1
    broken = found["prepare"]["lines"]
    assert broken.startswith("numbered does not treat each event independently: for Line(")
    assert broken.count("text=''") == 3  # two events, and the one that is looked at
    assert "'number': 1" in broken
    assert broken.endswith("'number': 0}] for that event alone")


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ("next(CALLS)", "numbered does not treat each event independently: for "),
        ("min(next(CALLS), 20)", "numbered returns different rows for"),
    ],
)
def test_a_source_whose_rows_depend_on_the_call_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: str, told: str
) -> None:
    definitions = PREPARED.replace("NUMBERS", f"[{numbers}] * len(lines)")
    place = project(tmp_path, LAWFUL)
    (tmp_path / "definitions.py").write_text(f"from itertools import count as from_zero\n\nCALLS = from_zero()\n{definitions}")
    code, found = run(capsys, "check", "--laws", "--project", place)
    assert (code, found["prepare"]["lines"][: len(told)]) == (1, told)


def test_without_hypothesis_it_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "tandem.views.verify.laws", raising=False)
    code, found = run(capsys, "check", "--laws", "--project", project(tmp_path, LAWFUL))
    assert (code, found["error"]) == (1, "--laws needs the Python package 'hypothesis', which is not installed")
