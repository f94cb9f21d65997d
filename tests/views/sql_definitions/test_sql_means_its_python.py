"""A view in SQL is its Python twin: the same view, with the same fingerprint, for every measure and every window."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.measures import CustomMeasure, Measure, histogram, stddev
from tandem.views.source.event import event_fields
from tandem.views.sql_definitions.compile import compile_sql
from tandem.views.view import View
from tests.agreement.windows import WINDOWS
from tests.laws.test_measures import MEASURES
from tests.samples import SAMPLES, share
from tests.views.sql_definitions.as_sql import view_as_sql

SOURCE = """\
CREATE SOURCE samples (
    at TIMESTAMP NOT NULL,
    flag BOOLEAN,
    i BIGINT,
    f DOUBLE,
    d DECIMAL(38, 2),
    s TEXT,
    digits TEXT,
    b BYTES,
    day DATE,
    t TIMESTAMP,
    m MAP<TEXT, BIGINT>,
    WATERMARK FOR at
);
"""
MORE: dict[str, Measure] = {
    "deviation": stddev("i", population=True),
    "edges": histogram("f", (0, 0.5, 10)),
}
SAID = {name: measure for name, measure in {**MEASURES, **MORE}.items() if not isinstance(measure, CustomMeasure)}
KEYS = {"flag": "flag", "s": "upper(s)", "day": "date_trunc('day', \"at\")", "case_": "CASE WHEN i > 0 THEN 'FROM' ELSE 'x' END"}
CONDITIONS = ("i > 0", "s IN ('a', 'b') AND d IS DISTINCT FROM 0", 'extract(year FROM "at") = 2026')


def namespace_of(sql: str) -> dict[str, Any]:
    """What the module has that the SQL means."""
    namespace: dict[str, Any] = {"__name__": "definitions"}
    exec(compile_sql(sql, "definitions.sql").text, namespace)
    return namespace


def back_from_sql(view: View) -> View:
    """The view that the SQL of a view means, over the source of the view."""
    twin: View = namespace_of(SOURCE + view_as_sql(view, "twin"))["twin"]
    return replace(twin, source=view.source, name=view.name)


TYPES = {
    "bool": "BOOLEAN",
    "int": "BIGINT",
    "float": "DOUBLE",
    "str": "TEXT",
    "bytes": "BYTES",
    "date": "DATE",
    "time": "TIME(3) WITHOUT TIME ZONE",
    "datetime": "TIMESTAMP(3) WITH TIME ZONE",
    "timedelta": "INTERVAL",
    "UUID": "UUID",
    "Decimal": "DECIMAL(38, 2)",
    "Literal": "ENUM('date', 'str')",
    "list": "ARRAY<TEXT>",
    "dict": "MAP<TEXT, BIGINT>",
    "Annotated": "STRUCT<date DATE, day DATE, str TEXT, text TEXT>",
}


def test_a_column_may_have_the_name_of_a_type_in_python() -> None:
    """The types of the columns after it are what they are without it."""
    columns = [*TYPES.items(), *((f"c{n}", type_) for n, type_ in enumerate(TYPES.values()))]
    declared = ", ".join(f'"{name}" {type_}' for name, type_ in columns)
    sql = f"CREATE SOURCE s (at TIMESTAMP NOT NULL, {declared}, WATERMARK FOR at)"
    fields = {field.name: field.arrow for field in event_fields(namespace_of(sql)["s"].event)}
    assert list(fields)[1:] == [name for name, _ in columns]
    assert [fields[name] for name in TYPES] == [fields[f"c{n}"] for n in range(len(TYPES))]
    assert (fields["time"], fields["timedelta"], fields["date"]) == (pa.int64(), pa.int64(), pa.date32())


def test_a_default_is_a_value_of_its_column() -> None:
    columns = {
        "a": ("TIMESTAMP", "TIMESTAMP '2026-01-01T00:00:00Z'", datetime(2026, 1, 1, tzinfo=UTC)),
        "b": ("DECIMAL(10, 2)", "0.5", Decimal("0.5")),
        "c": ("DECIMAL(10, 2)", "-3", Decimal(-3)),
        "d": ("INTERVAL", "INTERVAL '1 hour'", timedelta(hours=1)),
        "e": ("TEXT", "'x'", "x"),
    }
    declared = ", ".join(f"{name} {type_} DEFAULT {default}" for name, (type_, default, _) in columns.items())
    event = namespace_of(f"CREATE SOURCE s (at TIMESTAMP NOT NULL, {declared}, WATERMARK FOR at)")["s"].event
    made = event(at=datetime(2026, 1, 1, tzinfo=UTC))
    assert {name: getattr(made, name) for name in columns} == {name: value for name, (_, _, value) in columns.items()}


def test_every_measure_has_the_same_meaning_in_sql() -> None:
    view = View(SAMPLES, keys=KEYS, measures=SAID, where=CONDITIONS[0], name="every_measure")
    twin = back_from_sql(view)
    assert twin == view
    assert fingerprint(twin) == fingerprint(view)


@pytest.mark.parametrize("kind", WINDOWS)
@share(40, quick=8)
@given(st.data())
def test_every_view_has_the_same_meaning_in_sql(kind: str, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([name for name in SAID if name != "ratio"]), min_size=1, max_size=3, unique=True))
    keys = data.draw(st.lists(st.sampled_from(list(KEYS)), max_size=2, unique=True))
    view = View(
        SAMPLES,
        keys={name: KEYS[name] for name in keys},
        window=data.draw(WINDOWS[kind]).window,
        measures={name: SAID[name] for name in names},
        where=data.draw(st.none() | st.sampled_from(CONDITIONS)),
        name="any_view",
    )
    twin = back_from_sql(view)
    assert twin == view
    assert fingerprint(twin) == fingerprint(view)
