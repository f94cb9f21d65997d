"""A view in SQL is its Python twin: the same view, with the same fingerprint, for every measure and every window."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.fingerprint.fingerprint import fingerprint
from tandem.views.measures import CustomMeasure, Measure, histogram, stddev
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


def test_every_measure_has_the_same_meaning_in_sql() -> None:
    view = View(SAMPLES, keys=KEYS, measures=SAID, where=CONDITIONS[0], name="every_measure")
    twin = back_from_sql(view)
    assert twin == view
    assert fingerprint(twin) == fingerprint(view)


@pytest.mark.parametrize("kind", WINDOWS)
@share(40, quick=25)
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
