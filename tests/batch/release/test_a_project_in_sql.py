"""A project of definitions.sql alone is fed, recomputed, changed, applied and asked, and equals its Python twin throughout."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.cli.__main__ import main
from tandem.ledger.publish.publications import Publication
from tests.batch.release.test_apply import CHANGED
from tests.batch.shop import DEFINITIONS, Shop, answers, assert_true, records, together

SQL = """
CREATE SOURCE sales (
    id TEXT NOT NULL, at TIMESTAMP NOT NULL, shop TEXT NOT NULL, cents BIGINT NOT NULL, PRIMARY KEY (id), WATERMARK FOR at
) WITH (topic = 'TOPIC');

CREATE VIEW per_hour AS
SELECT shop, count(*) AS n, sum(cents) AS cents, max(cents) AS biggest, avg(cents) AS usual
FROM sales
GROUP BY shop, TUMBLE(at, INTERVAL '1 hour');

CREATE VIEW refunds AS SELECT count(*) AS n, approx_count_distinct(id) AS sales FROM sales WHERE cents < 0;
"""
CHANGED_SQL = SQL.replace("cents < 0", "cents < -10").replace("avg(cents)", "avg(cents + 1)")
VIEWS = ("per_hour", "refunds")


def define_in_sql(shop: Shop, definitions: str) -> None:
    """Replace the definitions of a shop by some in SQL."""
    (shop.folder / "definitions.py").unlink(missing_ok=True)
    (shop.folder / "definitions.sql").write_text(definitions.replace("TOPIC", shop.topic.name))


def twin_of(shop: Shop, folder: Path) -> Shop:
    """A shop of the same topic whose definitions are in Python, with tables of its own."""
    folder.mkdir()
    (folder / "tandem.toml").write_text((shop.folder / "tandem.toml").read_text())
    settings = msgspec.structs.replace(shop.settings, state=str(folder / "state"))
    return replace(shop, settings=settings, folder=folder)


def recomputed(shop: Shop) -> Publication:
    write_archive.run(shop.run("archive"), shop.project)
    return recompute.run(shop.run("recompute"), shop.project).publication


@pytest.mark.slow
def test_it_is_its_twin_when_fed_recomputed_changed_and_asked(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = twin_of(shop, tmp_path / "python")
    python.define(DEFINITIONS)
    define_in_sql(sql := shop, SQL)
    log = records(61, 200)
    shop.sell(log)
    first = [recomputed(each) for each in (sql, python)]
    for each, live in zip((sql, python), first, strict=True):
        assert_true(each, live, log)

    more = records(62, 60)
    shop.sell(more)
    define_in_sql(sql, CHANGED_SQL)
    python.define(CHANGED)
    for each in (sql, python):
        assert apply.run(each.run("apply"), each.project, Terms(max_lag=0)).status == dict.fromkeys(VIEWS, "changed")
        each.promote()
    lives = [recomputed(each) for each in (sql, python)]
    assert lives[0].counts == lives[1].counts
    for view in VIEWS:
        rows, of_twin = (answers(each, live, view) for each, live in zip((sql, python), lives, strict=True))
        assert rows == of_twin
        assert sum(row["n"] for row in rows) > 0
        # The fingerprint is the name of the view's tables.
        assert lives[0].views[view].fingerprint == lives[1].views[view].fingerprint
    assert len(answers(sql, lives[0], "per_hour")) > 1

    # What a person asks.
    printed = []
    for each in (sql, python):
        assert main(["query", "per_hour", "--project", str(each.folder), "--json"]) == 0
        printed.append(json.loads(capsys.readouterr().out)["rows"])
        assert main(["sql", "SELECT sum(n) AS n FROM per_hour", "--project", str(each.folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == [{"n": sum(row["n"] for row in printed[-1])}]
    assert printed[0] == printed[1]
    events = {(sale["id"], sale["at"]) for values in together(log, more).values() for sale in map(json_or_none, values) if sale}
    assert sum(row["n"] for row in printed[0]) == len(events)

    # A change of the language alone builds nothing.
    (sql.folder / "definitions.sql").unlink()
    (sql.folder / "definitions.py").write_text((python.folder / "definitions.py").read_text())
    again = apply.run(sql.run("apply"), sql.project, Terms(max_lag=0))
    assert (again.status, again.written) == (dict.fromkeys(VIEWS, "unchanged"), 0)


def json_or_none(value: bytes | None) -> dict[str, object] | None:
    """A sale; None of what does not decode as one."""
    try:
        sale = json.loads(value or b"")
    except ValueError:
        return None
    return sale if sale.keys() == {"id", "at", "shop", "cents"} and sale["id"] != "x" else None
