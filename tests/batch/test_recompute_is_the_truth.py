"""A published batch is what plain Python counts below its cut, with every copy dropped and every record accounted for."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from batch import archive, recompute
from batch.jobs import TaskFailed
from batch.planning import Request
from ledger import archive as archived
from ledger import delta, publications, realtime
from ledger.commit_files import spans_of
from ledger.commits import Commit
from ledger.counts import Counts
from ledger.fetched import Unclosed
from ledger.tiling import chain
from tests.batch.shop import DEFINITIONS, MALFORMED, Shop, answers, assert_labelled, assert_true, records, together, watermark
from views.errors import TandemError

pytestmark = pytest.mark.broker


def test_agrees_from_events_and_from_raw_records(shop: Shop) -> None:
    log = records(11, 500)
    shop.sell(log)
    archive.run(shop.run("archive"), shop.project)

    first = recompute.run(shop.run("recompute"), shop.project).publication
    assert_true(shop, first, log)
    assert first.watermarks["sales"] == watermark(log)
    assert_labelled(shop, watermark(log))
    # Nobody follows: the batch bridged from the log's start to the archive's end.
    assert {span.kind for span in spans_of(shop.tables, 1, "sales")} == {"bridge", "cut"}

    more = records(12, 300, known=log[0])
    shop.sell(more)
    archive.run(shop.run("archive"), shop.project)
    second = recompute.run(shop.run("recompute"), shop.project, Request(mode="full", raw=True)).publication

    assert_true(shop, second, together(log, more))
    # The later sales happened at the same times, and new ones of a partition may end earlier.
    assert second.watermarks["sales"] == max(watermark(log), watermark(together(log, more)))
    assert_labelled(shop, second.watermarks["sales"])
    assert (second.number, second.parent, second.kind) == (3, 2, "recompute")
    assert not list(Path(shop.tables.root, "scratch").iterdir())


PREPARES = """

import pyarrow as pa


def by_cent(sales):
    cents = sales["cents"].to_pylist()
    if 499 in cents:
        raise ValueError("499 is no price")
    parents = [row for row, each in enumerate(cents) for _ in range(each % 3)]
    of = pa.array([cents[row] % 3 for row in parents], pa.int64())
    return sales.take(pa.array(parents, pa.int64())).append_column("of", of)


"""


def test_folds_what_a_source_prepares(shop: Shop) -> None:
    """Prepared from all of a source's columns; what is made of an event counts, and how many events there are stays."""
    definitions = DEFINITIONS.replace("\n\nsales = Source(", f"{PREPARES}sales = Source(")
    definitions = definitions.replace('identity=("id",)', 'identity=("id",), prepare=by_cent')
    definitions = definitions.replace('keys={"shop": "shop"}', 'keys={"of": "of"}')
    shop.define(definitions.replace("(per_hour, refunds)", "(per_hour,)"))
    log = records(17, 400)
    shop.sell(log)
    archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project).publication

    counted: dict[tuple[str, str], dict[str, int]] = {}
    for values in (log[0], log[1]):
        for value in values:
            if value not in MALFORMED:
                sale = json.loads(value or b"")
                counted.setdefault((sale["id"], sale["at"]), sale)
    assert live.counts["sales"].events == len(counted)
    failing = sum(sale["cents"] == 499 for sale in counted.values())
    assert live.rejected["per_hour"] == ({"prepare": failing} if failing else {})
    rows = answers(shop, live, "per_hour")
    for of in (1, 2):
        cents = [sale["cents"] for sale in counted.values() if sale["cents"] % 3 == of and sale["cents"] != 499]
        found = [row for row in rows if row["of"] == of]
        assert (sum(row["n"] for row in found), sum(row["cents"] for row in found)) == (of * len(cents), of * sum(cents))


def test_cuts_where_the_speed_layer_has_committed(shop: Shop) -> None:
    log = records(13, 200)
    shop.sell(log)
    project = shop.project()
    (done,) = archive.run(shop.run("archive"), lambda: project)
    batch = shop.run("speed")
    writer = realtime.Writer.claim(shop.tables, 1, "sales", by="speed", at=batch.now())
    ahead = type(done.end).of({partition: offset + 5 for partition, offset in done.end.items()})
    for end in (done.end, ahead):
        writer.append(Commit(writer.end, end, writer.epoch, "fold", counts=Counts(), at=batch.now(), by="speed"))

    live = recompute.run(shop.run("recompute"), lambda: project).publication

    assert_true(shop, live, log)
    assert live.cut("sales") == done.end
    assert chain(spans_of(shop.tables, 1, "sales"), live.cut("sales")).end == ahead


def test_nothing_archived_is_an_empty_batch(shop: Shop) -> None:
    live = recompute.run(shop.run("recompute"), shop.project).publication

    assert_true(shop, live, {0: [], 1: []})


def test_adopting_publishes_new_meanings_and_a_new_decoder(shop: Shop) -> None:
    log = records(14, 200)
    shop.sell(log)
    archive.run(shop.run("archive"), shop.project)
    before = recompute.run(shop.run("recompute"), shop.project).publication
    # A default is part of what decodes; the refunds are now those below -10.
    changed = DEFINITIONS.replace("cents: int\n", "cents: int\n    till: int = 0\n").replace("cents < 0", "cents < -10")
    shop.define(changed)

    plain = recompute.run(shop.run("recompute"), shop.project).publication
    adopted = recompute.run(shop.run("recompute"), shop.project, Request(adopt=True)).publication
    again = recompute.run(shop.run("recompute"), shop.project, Request(mode="full", adopt=True)).publication

    assert plain.views["refunds"].fingerprint == before.views["refunds"].fingerprint
    assert (adopted.release, adopted.kind, again.release, again.kind) == (2, "promote", 2, "recompute")
    assert adopted.views["refunds"].fingerprint != before.views["refunds"].fingerprint
    assert sum(row["n"] for row in answers(shop, adopted, "refunds")) < sum(
        row["n"] for row in answers(shop, adopted, "per_hour") if row
    )
    per_hour = {(row["shop"], row["window_start"]): row["n"] for row in answers(shop, adopted, "per_hour")}
    shop.define(DEFINITIONS)
    assert per_hour == {(row["shop"], row["window_start"]): row["n"] for row in answers(shop, before, "per_hour")}
    assert {span.kind for span in spans_of(shop.tables, 2, "sales")} == {"bridge", "cut"}


def test_a_gap_is_counted_without_only_when_accepted(shop: Shop) -> None:
    shop.sell({0: records(15, 40)[0], 1: []})
    archive.run(shop.run("archive"), shop.project)
    lost = records(16, 40)[0]
    shop.sell({0: lost, 1: []})
    (end,) = archived.archived(shop.tables, "sales").values()
    shop.connection.admin.delete_records([TopicPartition(shop.topic.name, 0, end + 3)])[
        TopicPartition(shop.topic.name, 0, end + 3)
    ].result()
    archive.run(shop.run("archive"), shop.project)

    with pytest.raises(TandemError, match=r"'sales-gap-1'.*accept it by name"):
        recompute.run(shop.run("recompute"), shop.project)
    first = recompute.run(shop.run("recompute"), shop.project, Request(accepted=("sales-gap-1",))).publication
    second = recompute.run(shop.run("recompute"), shop.project).publication

    assert first.gaps == second.gaps == ("sales-gap-1",)
    assert_true(shop, second, {0: [*records(15, 40)[0], *lost[3:]], 1: []})


def test_lost_rows_and_lost_files_publish_nothing(shop: Shop) -> None:
    shop.sell(records(17, 100))
    archive.run(shop.run("archive"), shop.project)
    before = publications.latest(shop.tables)
    handle = delta.open_table(shop.tables, shop.tables.events("sales", decoder(shop)))
    assert handle is not None
    rows = delta.read_file(handle, next(iter(delta.files(handle))))
    (file,) = delta.files(handle)
    path = Path(shop.tables.events("sales", decoder(shop)), file)
    kept = path.read_bytes()

    pq.write_table(rows.slice(1), path)
    with pytest.raises(Unclosed, match="has lost or doubled rows"):
        recompute.run(shop.run("recompute"), shop.project)
    path.write_bytes(kept[:100])
    with pytest.raises(TaskFailed, match="Parquet"):
        recompute.run(shop.run("recompute"), shop.project)
    path.unlink()
    with pytest.raises(TaskFailed, match="No such file"):
        recompute.run(shop.run("recompute"), shop.project)

    assert publications.latest(shop.tables) == before


def decoder(shop: Shop) -> str:
    (name,) = {path.parent.name for path in Path(shop.tables.root, "log", "sales").glob("*/events")}
    assert archived.progress(shop.tables, "sales", name).events
    return name
