"""A view is checked whole and says what its tables look like; its errors name view, part, value and what is valid."""

import time
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.measures import Approximation, approx_count_distinct, approx_quantiles, count, maximum, mean, total
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema, approximations, bind, group_columns, state_schema
from tandem.views.windows import AllTime, tumbling
from tests.samples import SAMPLES

TIME = pa.timestamp("us", "UTC")


class Request(Event):
    at: datetime
    user: str
    path: str
    bytes: int
    ms: float


REQUESTS = Source(topic="requests", event=Request, event_time="at", name="requests")
TRAFFIC = View(
    source=REQUESTS,
    where="path <> '/health'",
    keys={"page": "path", "long": "ms > 1000"},
    window=tumbling(minutes=1),
    measures={
        "hits": count(),
        "volume": total("bytes"),
        "visitors": approx_count_distinct('"user"'),
        "latency": approx_quantiles("ms", (0.5, 0.99)),
        "mean_ms": mean("ms"),
        "last": maximum('"at"'),
    },
    name="page_traffic",
)


def test_the_states_have_these_columns() -> None:
    assert state_schema(TRAFFIC) == pa.schema(
        [
            ("page", pa.string()),
            ("long", pa.bool_()),
            ("window_start", TIME),
            ("window_end", TIME),
            ("hits", pa.int64()),
            ("volume", pa.decimal128(38, 0)),
            ("visitors", pa.binary()),
            ("latency", pa.binary()),
            ("mean_ms__sum", pa.float64()),
            ("mean_ms__excess", pa.float64()),
            ("mean_ms__count", pa.int64()),
            ("last", TIME),
        ]
    )
    assert all(field.metadata is None for field in state_schema(TRAFFIC))
    assert group_columns(TRAFFIC) == ["page", "long", "window_start", "window_end"]


def test_the_answers_have_these_columns_and_kinds() -> None:
    schema = answer_schema(TRAFFIC)
    assert {field.name: (field.type, field.metadata[b"kind"].decode()) for field in schema} == {
        "page": (pa.string(), "text"),
        "long": (pa.bool_(), "boolean"),
        "window_start": (TIME, "time"),
        "window_end": (TIME, "time"),
        "window_state": (pa.string(), "text"),
        "hits": (pa.int64(), "integer"),
        "volume": (pa.decimal128(38, 0), "integer"),
        "visitors": (pa.int64(), "integer"),
        "latency": (pa.struct([("0.5", pa.float64()), ("0.99", pa.float64())]), "struct"),
        "mean_ms": (pa.float64(), "float"),
        "last": (TIME, "time"),
    }


def test_what_is_approximate_says_so_and_the_rest_does_not() -> None:
    assert approximations(TRAFFIC) == {
        "visitors": approximations(TRAFFIC)["visitors"],
        "latency": Approximation("kll", error=0.0133, confidence=0.99),
        "mean_ms": Approximation("order"),
    }
    assert 0.02 < (approximations(TRAFFIC)["visitors"].error or 0) < 0.04


def test_views_are_values() -> None:
    same = View(
        source=REQUESTS,
        where=TRAFFIC.where,
        keys=dict(TRAFFIC.keys),
        window=TRAFFIC.window,
        measures=dict(TRAFFIC.measures),
        name="page_traffic",
    )
    assert same == TRAFFIC
    assert hash(same) == hash(TRAFFIC)
    turned = View(source=REQUESTS, keys={"b": "path", "a": "path"}, measures={"n": count()})
    assert turned != View(source=REQUESTS, keys={"a": "path", "b": "path"}, measures={"n": count()})


def test_expressions_that_mean_the_same_are_evaluated_once() -> None:
    view = View(REQUESTS, keys={"a": "upper(path)", "b": "UPPER( path )"}, measures={"low": maximum("upper(path)"), "n": count()})
    assert len(bind(view).expressions) == 1


def wrong(**parts: Any) -> str:
    view = View(**{"source": REQUESTS, "measures": {"n": count()}, "name": "traffic", **parts})
    with pytest.raises(DefinitionError) as refusal:
        bind(view)
    return str(refusal.value)


def test_errors_name_the_part_and_what_exists() -> None:
    assert wrong(keys={"page": "pth"}) == (
        "view 'traffic', key 'page': 'pth' names a field 'pth' that Request does not have; "
        "fields: path, at, _partition, _append_time, bytes, _offset, _topic_id, user, ms"
    )
    assert wrong(where="bytes") == "view 'traffic', where: 'bytes' is of type BIGINT; a filter is BOOLEAN"
    assert wrong(where="now() > 1").startswith("view 'traffic', where: 'now() > 1' is refused: now reads the clock")
    assert (
        wrong(measures={"n": total("path")})
        == "view 'traffic', measure 'n': 'path' is of type VARCHAR; this measure takes numbers"
    )
    assert wrong(measures={"n": total("byts")}).startswith("view 'traffic', measure 'n': 'byts' names a field")
    assert wrong(keys={"at": "at"}).endswith('; these are reserved words of SQL; quote them: "at"')


class OwnWindow(AllTime):
    """A window of a project: neither the oracle nor look-ups know it."""


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"source": "requests"}, "'requests' is not a Source"),
        ({"window": 60}, "60 is not a window of Tandem, such as tumbling(minutes=1) or all_time(); a project cannot define"),
        ({"window": OwnWindow()}, "window: OwnWindow() is not a window of Tandem"),
        ({"measures": {}}, "has no measures"),
        ({"measures": {"n": count}}, "the function count is not a measure; call it: count()"),
        ({"measures": {"n": "count"}}, "is not a measure"),
        ({"keys": {"n": "path"}}, "the name 'n' is already used;"),
        ({"keys": {"N": "path"}}, "the name 'n' is already used, as 'N';"),
        ({"keys": {"path": "path"}, "measures": {"path": mean("ms")}}, "the name 'path' is already used;"),
        ({"keys": {"window_start": "path"}}, "'window_start' is already"),
        ({"keys": {"batch_version": "path"}}, "'batch_version' is already"),
        ({"keys": {"m__sum": "path"}, "measures": {"m": mean("ms")}}, "'m__sum' is already"),
        ({"keys": {"a b": "path"}}, "'a b' is not a name"),
        ({"keys": {"": "path"}}, "'' is not a name"),
        ({"keys": {"_k": "path"}}, "'_k' is not a name"),
        ({"keys": {"ключ": "path"}}, "'ключ' is not a name"),
        ({"name": "my-view"}, "'my-view' is not a name"),
    ],
)
def test_what_makes_no_view_is_refused(parts: dict[str, Any], sentence: str) -> None:
    assert sentence in wrong(**parts)


@pytest.mark.parametrize("fractions", [(), (1.5,), (-0.1,), (0.5, 0.5), ("half",), (None,), (float("nan"),)])
def test_quantiles_are_numbers_from_0_to_1(fractions: Any) -> None:
    with pytest.raises(DefinitionError, match="different numbers from 0 to 1"):
        approx_quantiles("ms", fractions)


@pytest.mark.parametrize("size", [{"seconds": 0}, {"seconds": -1}, {"seconds": 0.5}, {"days": 400_000}, {}])
def test_windows_have_a_possible_size(size: dict[str, float]) -> None:
    with pytest.raises(DefinitionError, match="at least 1 second and at most 1000 years"):
        tumbling(**size)


def test_binding_twenty_views_takes_well_under_a_second() -> None:
    views = [
        View(
            SAMPLES,
            keys={"a": f"i % {n + 2}", "b": "upper(s)"},
            where=f"i > {n}",
            measures={"n": count(), "t": total(f"i * {n}")},
        )
        for n in range(20)
    ]
    bind(views[0])
    started = time.perf_counter()
    for view in views:
        bind(view)
    assert time.perf_counter() - started < 10  # 0.4 s on a slow machine
