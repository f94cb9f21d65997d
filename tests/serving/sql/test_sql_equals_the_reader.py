"""SQL is at one snapshot with the reader's provenance, and functions over sketches equal the presented values."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value
from tandem.serving.sql import merged_views
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask, state_names
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.sql.shared_tables import share
from tests.serving.world import World, forty_hits, hit

SKETCHES = """
from datetime import datetime

from tandem import Event, Source, View, count, approx_count_distinct, approx_quantiles, theta_sketch, tumbling


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int


hits = Source(topic="hits", event=Hit, event_time="moment")
hourly = View(
    source=hits,
    keys={"page": "page"},
    window=tumbling(hours=1),
    measures={
        "n": count(), "sizes": approx_count_distinct("bytes"), "window": approx_count_distinct("page"),
        "spread": approx_quantiles("bytes", (0.5, 0.99)),
        "exact": theta_sketch("bytes"),
    },
)
ever = View(source=hits, measures={
    "sizes": approx_count_distinct("bytes"), "spread": approx_quantiles("bytes", (0.5,)), "exact": theta_sketch("bytes")})

SOURCES = (hits,)
VIEWS = (hourly, ever)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=60)) as made:
        yield made


def test_a_join_is_at_one_snapshot_and_the_next_statement_at_the_next(sandbox: Sandbox, tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    views = MergedViews(Store(world.tables, 1))
    totals = "SELECT sum(p.n) AS pages, any_value(e.n) AS ever, (SELECT sum(n) FROM inverse) AS inverse FROM per_page p, ever e"
    before = to_rows(ask(sandbox, views, totals).table)
    assert before == [{"pages": 40, "ever": 39, "inverse": 39}]
    world.append(1, hit("/new", 5))
    world.trigger()
    assert to_rows(ask(sandbox, views, "SELECT sum(n) AS n FROM per_page").table) == [{"n": 40}]
    assert to_rows(ask(sandbox, views, totals).table) == before
    views.refresh()
    found = ask(sandbox, views, totals)
    assert to_rows(found.table) == [{"pages": 41, "ever": 40, "inverse": 40}]
    assert {one.realtime for one in found.provenance.values()} == {world.writer.end}
    for name, told in found.provenance.items():
        answer = Reader(world.tables).answer(name)
        assert isinstance(answer, Value)
        assert told == answer.provenance
    summary = found.told(now=datetime(2026, 11, 2, tzinfo=UTC))
    label = summary["exactness"]["label"]
    assert (summary["publication"], label, sorted(summary["views"])) == (2, "estimate", ["ever", "inverse", "per_page"])


def test_functions_over_states_equal_the_presented_values(sandbox: Sandbox, tmp_path: Path) -> None:
    world = World(tmp_path, definitions=SKETCHES)
    for part in range(3):
        world.append(0, *(hit(f"/{n % 3}", n, minute=n % 240) for n in range(part * 300, part * 300 + 500)))
        world.trigger()
    views = MergedViews(Store(world.tables, 1))

    def rows(sql: str) -> list[dict[str, Any]]:
        return to_rows(ask(sandbox, views, sql).table)

    assert list(state_names(views.views()["hourly"])) == ["sizes_state", "window_state_", "spread_state", "exact_state"]
    apart = rows(
        """
        SELECT count(*) FILTER (WHERE hll_estimate(sizes_state) <> sizes) AS hll,
               count(*) FILTER (WHERE theta_estimate(exact_state) <> exact) AS theta,
               count(*) FILTER (WHERE kll_quantile(spread_state, 0.5) <> spread['0.5']) AS kll,
               count(*) AS n
        FROM hourly
        """
    )
    assert apart == [{"hll": 0, "theta": 0, "kll": 0, "n": 12}]
    united = rows(
        """
        SELECT hll_estimate(hll_union(sizes_state)) AS hll, theta_estimate(theta_union(exact_state)) AS theta,
               kll_quantile(kll_union(spread_state), 0.5) AS kll, sum(n) AS n
        FROM hourly
        """
    )
    ((ever,),) = (rows("SELECT sizes, exact, spread['0.5'] AS median FROM ever"),)
    assert (united[0]["hll"], united[0]["theta"], united[0]["n"]) == (ever["sizes"], ever["exact"], 1500)
    assert ever["exact"] == 1100
    assert united[0]["kll"] == pytest.approx(ever["median"], abs=1100 * 0.03)
    (common,) = rows(
        """
        SELECT theta_estimate(theta_intersection(a.s, b.s)) AS common, theta_estimate(theta_difference(a.s, b.s)) AS alone
        FROM (SELECT theta_union(exact_state) AS s FROM hourly WHERE page = '/0') AS a,
             (SELECT theta_union(exact_state) AS s FROM hourly) AS b
        """
    )
    assert common == {"common": len(range(0, 1100, 3)), "alone": 0}


def test_only_readable_views_are_visible(sandbox: Sandbox, tmp_path: Path) -> None:
    views = MergedViews(Store(forty_hits(tmp_path).tables, 1))
    assert to_rows(ask(sandbox, views, "SELECT n FROM ever", readable={"ever"}).table) == [{"n": 39}]
    assert [row["name"] for row in to_rows(ask(sandbox, views, "SHOW TABLES", readable={"ever"}).table)] == ["ever"]
    assert to_rows(ask(sandbox, views, " show tables ; ", readable=()).table) == []
    for name in ("per_page", "nowhere"):
        with pytest.raises(StatementRefused, match=f"^no view '{name}'; views: ever$"):
            ask(sandbox, views, f"FROM {name}", readable={"ever"})


def test_a_view_without_an_answer_is_a_failure_and_not_an_empty_table(sandbox: Sandbox, tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    for file in (tmp_path / ".tandem" / "tables" / "views" / "per_page").rglob("*.parquet"):
        file.unlink()
    views = MergedViews(Store(world.tables, 1))
    with pytest.raises(StatementRefused) as refused:
        ask(sandbox, views, "SELECT count(*) FROM per_page")
    assert refused.value.reason == "failed"
    assert to_rows(ask(sandbox, views, "SELECT n FROM ever").table) == [{"n": 39}]


@pytest.mark.parametrize("memory", [MEMORY, 10])
def test_a_table_is_built_once_for_all_statements_of_a_snapshot(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    world = forty_hits(tmp_path)
    store = Store(world.tables, 1, memory)
    views = MergedViews(store)
    made: list[int] = []
    monkeypatch.setattr(merged_views, "share", lambda table: (made.append(len(table)), share(table))[1])
    for _ in range(2):
        ask(sandbox, views, "SELECT (SELECT sum(n) FROM per_page) AS n, e.n AS m FROM ever e")
    assert sorted(made) == [1, 31]
    assert set(store.pinned().views) == (set() if memory == 10 else {"per_page", "ever"})
    world.append(1, hit("/new", 5))
    world.trigger()
    store.refresh()
    for _ in range(2):
        assert to_rows(ask(sandbox, views, "SELECT sum(n) AS n FROM per_page").table) == [{"n": 41}]
    assert sorted(made) == [1, 31, 32]


def test_states_are_those_of_the_rows_whatever_the_window(sandbox: Sandbox, tmp_path: Path) -> None:
    """In memory a hopping window's state is in pieces, which are made one for the statement."""
    hops = SKETCHES.replace("import Event,", "import hopping, session, Event,").replace(
        "window=tumbling(hours=1)", "window=hopping(timedelta(hours=2), every=timedelta(hours=1))"
    )
    world = World(tmp_path, definitions=hops.replace("import datetime\n", "import datetime, timedelta\n"))
    for part in range(4):
        world.append(0, *(hit(f"/{n % 3}", n, minute=n % 240) for n in range(part * 100, part * 100 + 150)))
        world.trigger()
        if part == 1:
            world.recompute(world.end)
    estimates = "hll_estimate(sizes_state) AS a, theta_estimate(exact_state) AS b, kll_quantile(spread_state, 0.5) AS c"
    found = {}
    for memory in (MEMORY, 10):
        rows = to_rows(ask(sandbox, MergedViews(Store(world.tables, 1, memory)), f"SELECT *, {estimates} FROM hourly").table)
        for row in rows:
            assert (row["sizes"], row["exact"], row["spread"]["0.5"]) == (row["a"], row["b"], row["c"])
        exact = ("page", "window_start", "n", "sizes", "exact", "exact_state")
        found[memory] = [[row[name] for name in exact] for row in rows]
    assert found[MEMORY] == found[10]
    assert len(found[MEMORY]) == 15
