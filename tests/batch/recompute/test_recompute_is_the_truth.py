"""A published batch equals plain Python's count below its cut, without duplicates and with every record accounted for."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from random import Random
from re import sub

import pyarrow.parquet as pq
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.ledger import realtime_writer
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.fetch_checks import Unclosed
from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.tiling import chain
from tandem.views.arrow.arrays import to_ipc
from tandem.views.errors import TandemError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.view import state_schema
from tests.batch.shop import (
    DEFINITIONS,
    MALFORMED,
    Shop,
    answers,
    assert_labelled,
    assert_true,
    records,
    together,
    truth,
    watermark,
)
from tests.stack import new_topic, produce


def test_recomputes_from_events_and_from_raw_records_agree(shop: Shop) -> None:
    log = records(11, 500)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)

    first = recompute.run(shop.run("recompute"), shop.project).publication
    assert_true(shop, first, log)
    assert first.watermarks["sales"] == watermark(log)
    assert_labelled(shop, watermark(log))
    # Nobody follows: the batch bridged from the log's start to the archive's end.
    assert {span.kind for span in spans_of(shop.tables, 1, "sales")} == {"bridge", "cut"}

    more = records(12, 300, known=log[0])
    shop.sell(more)
    write_archive.run(shop.run("archive"), shop.project)
    second = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=True)).publication

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


def test_prepared_rows_are_folded(shop: Shop) -> None:
    """Prepared from all of a source's columns; what is made of an event counts, and how many events there are stays."""
    definitions = DEFINITIONS.replace("\n\nsales = Source(", f"{PREPARES}sales = Source(")
    definitions = definitions.replace('identity=("id",)', 'identity=("id",), prepare=by_cent')
    definitions = definitions.replace('keys={"shop": "shop"}', 'keys={"of": "of"}')
    shop.define(definitions.replace("(per_hour, refunds)", "(per_hour,)"))
    log = records(17, 400)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
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


def test_records_of_several_events_account_for_their_offsets(shop: Shop) -> None:
    """Copies inside one value and of another, lists that are too long: each record has one outcome, each event counts once."""
    shop.define(DEFINITIONS.replace('identity=("id",)', 'identity=("id",), max_events_per_record=4'))
    sales = {number: [value for value in values if value not in MALFORMED] for number, values in records(19, 200).items()}
    lists = {
        number: [[*values[at : at + 3], *values[at : at + at % 4]] for at in range(0, len(values), 3)]
        for number, values in sales.items()
    }
    shop.sell({number: [b"[%b]" % b",".join(map(bytes, held)) for held in several] for number, several in lists.items()})
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    taken = {number: [held for held in several if len(held) <= 4] for number, several in lists.items()}
    expected = truth({number: [value for held in several for value in held] for number, several in taken.items()})
    too_long = sum(map(len, lists.values())) - sum(map(len, taken.values()))
    assert done.counts.records == sum(map(len, taken.values()))
    assert (done.counts.quarantined, done.counts.holes) == ({"length": too_long}, 0)
    assert done.counts.events == sum(len(held) for several in taken.values() for held in several) > done.counts.records
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        counts = live.counts["sales"]
        assert (counts.events, counts.duplicates, counts.records) == (expected.events, expected.duplicates, done.counts.records)
        assert (counts.quarantined, counts.holes, counts.further) == ({"length": too_long}, 0, done.counts.further)
        found = {(row["shop"], row["window_start"]): (row["n"], row["cents"]) for row in answers(shop, live, "per_hour")}
        assert found == {key: row[:2] for key, row in expected.per_hour.items()}


def test_a_bad_event_of_a_list_is_rejected_alone(shop: Shop) -> None:
    """First, last or all of a record: the others count, and each offset has its outcome, in the archive and below a cut."""
    shop.define(DEFINITIONS.replace('identity=("id",)', 'identity=("id",), max_events_per_record=4'))
    sales = {number: [value for value in values if value not in MALFORMED] for number, values in records(23, 120).items()}
    bad = b'{"id": "x"}'
    lists = {
        number: [
            [*[bad] * (at % 2), *values[at : at + 2], *[bad] * (at % 3 == 0)] if at % 7 else [bad, bad]
            for at in range(0, len(values), 3)
        ]
        for number, values in sales.items()
    }
    shop.sell({number: [b"[%b]" % b",".join(map(bytes, held)) for held in several] for number, several in lists.items()})
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    every = [held for several in lists.values() for held in several]
    wrong = sum(value == bad for held in every for value in held)
    expected = truth({number: [value for held in several for value in held if value != bad] for number, several in lists.items()})
    assert (done.counts.records, done.counts.quarantined, done.counts.holes) == (len(every), {"missing_field": wrong}, 0)
    assert done.counts.rejected_events == wrong > len(every) / 2
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        counts = live.counts["sales"]
        assert (counts.events, counts.duplicates, counts.records) == (expected.events, expected.duplicates, len(every))
        assert (counts.quarantined, counts.rejected_events, counts.holes) == ({"missing_field": wrong}, wrong, 0)
        assert counts.further == done.counts.further
        found = {(row["shop"], row["window_start"]): (row["n"], row["cents"]) for row in answers(shop, live, "per_hour")}
        assert found == {key: row[:2] for key, row in expected.per_hour.items()}


@pytest.mark.parametrize("shared", [False, True])
def test_skipped_tombstones_account_for_their_offsets(shop: Shop, shared: bool) -> None:  # noqa: FBT001  a parameter
    """Neither events nor rejects, also in a topic that other sources share."""
    of_two = ', record_filter=by_field("shop", "shop 0", "shop 1")' if shared else ""
    definitions = DEFINITIONS.replace('identity=("id",)', f'identity=("id",), tombstones="skip"{of_two}')
    shop.define(definitions.replace("count, ", "by_field, count, ", 1))
    log = records(29, 300)
    shop.sell(log)
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    tombstones = sum(value is None for values in log.values() for value in values)
    assert (done.counts.skipped, done.counts.holes, done.counts.others > 0) == (tombstones, 0, shared)
    assert tombstones > 1
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        counts = live.counts["sales"]
        assert (counts.skipped, counts.others, counts.holes) == (tombstones, done.counts.others, 0)
        assert (counts.quarantined, counts.records) == (done.counts.quarantined, done.counts.records)


def test_rounded_amounts_are_counted_by_archive_and_recompute(shop: Shop) -> None:
    """Copies included, as the speed layer counts them; an event that the archive has twice is rounded twice."""
    exact = DEFINITIONS.replace(
        "import datetime", "import datetime\nfrom decimal import Decimal\nfrom typing import Annotated", 1
    )
    shop.define(
        exact.replace("Source,", "Scale, Source,", 1).replace("cents: int", 'cents: Annotated[Decimal, Scale(0, "half_even")]')
    )
    log = {
        number: [value if value is None else sub(rb'"cents": ?(-?[0-9]+)', rb'"cents":\1.5', value) for value in values]
        for number, values in records(31, 200).items()
    }
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        counts = live.counts["sales"]
        assert counts.rounded == counts.events + counts.duplicates > counts.duplicates > 0


def test_maps_are_archived_and_folded_as_they_were_sent(shop: Shop) -> None:
    """Through the table of events and without it; copies with another order of entries are no conflicts."""
    definitions = DEFINITIONS.replace("    cents: int", "    cents: int\n    tags: dict[str, int | None]")
    shop.define(
        definitions.replace('{"shop": "shop"}', """{"shop": "tags['shop']"}""").replace(
            '"cents": total("cents")', '"cents": total("tags[\'cents\']")'
        )
    )
    dice = Random(7)
    log: dict[int, list[bytes | None]] = {0: [], 1: []}
    expected: dict[int | None, list[int]] = defaultdict(list)
    for number in range(200):
        tags = {"shop": dice.choice([1, 2, None]), "cents": dice.randrange(100)} | ({"x": None} if number % 2 else {})
        sale = {"id": str(number), "at": "2026-03-01T00:00:00Z", "shop": "s", "cents": 1}
        log[number % 2].append(json.dumps(sale | {"tags": tags}).encode())
        log[0].append(json.dumps(sale | {"tags": dict(reversed(tags.items()))}).encode())
        expected[tags["shop"]].append(tags["cents"])
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        counts = live.counts["sales"]
        assert (counts.events, counts.duplicates, counts.conflicts, counts.rejects) == (200, 200, 0, 0)
        found = {row["shop"]: (row["n"], row["cents"]) for row in answers(shop, live, "per_hour")}
        assert found == {key: (len(cents), sum(cents)) for key, cents in expected.items()}


def test_the_cut_is_a_boundary_of_the_speed_layer(shop: Shop) -> None:
    log = records(13, 200)
    shop.sell(log)
    project = shop.project()
    (done,) = write_archive.run(shop.run("archive"), lambda: project)
    batch = shop.run("speed")
    writer = realtime_writer.Writer.claim(shop.tables, 1, "sales", by="speed", at=batch.now())
    ahead = type(done.end).of({partition: offset + 5 for partition, offset in done.end.items()})
    # They hold nothing, which is wrong.
    nothing = {fingerprint(view): to_ipc(state_schema(view).empty_table()) for view in project.views.values()}
    for end in (done.end, ahead):
        commit = Commit(writer.end, end, writer.epoch, "fold", counts=Counts(), partials=nothing, at=batch.now(), by="speed")
        writer.append(commit)

    live = recompute.run(shop.run("recompute"), lambda: project, RecomputeRequest(publish_anyway=True)).publication

    assert_true(shop, live, log)
    assert live.cut("sales") == done.end
    assert chain(spans_of(shop.tables, 1, "sales"), live.cut("sales")).end == ahead


def test_without_archived_records_the_batch_is_empty(shop: Shop) -> None:
    live = recompute.run(shop.run("recompute"), shop.project).publication

    assert_true(shop, live, {0: [], 1: []})


VERSION = """
class Was(Event):
    id: str
    at: datetime
    shop: str
    cents: int


def upgrade(old):
    return Sale(id=old.id, at=old.at, shop=old.shop, money=old.cents)


sales = Source(versions=(Version(Was, upgrade),), """


def test_records_of_an_earlier_version_count_in_the_next_release(shop: Shop) -> None:
    old, new = records(18, 150), records(19, 100)
    shop.sell(old)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    renamed = DEFINITIONS.replace("cents: int", "money: int").replace('("cents")', '("money")').replace("cents < 0", "money < 0")

    shop.define(renamed)
    with pytest.raises(TandemError, match=r"Sale\.cents is removed"):
        shop.promote()
    shop.define(renamed.replace("sales = Source(", VERSION).replace("View,", "Version, View,"))
    shop.promote()
    shop.sell(
        {partition: [value and value.replace(b'"cents"', b'"money"') for value in values] for partition, values in new.items()}
    )
    write_archive.run(shop.run("archive"), shop.project)
    adopted = recompute.run(shop.run("recompute"), shop.project).publication

    assert adopted.release == 2
    assert_true(shop, adopted, together(old, new))


@pytest.mark.slow
@pytest.mark.broker
def test_two_topics_are_one_log_in_the_order_of_the_source(shop: Shop) -> None:
    """Copies are in both topics; of those that differ, the one counts that the source names first, whatever the topics' ids."""
    first, second = sorted((shop.topic, new_topic(shop.connection)), key=lambda topic: topic.id, reverse=True)
    a = records(20, 200)
    b = records(21, 200, known=a[0])
    third = new_topic(shop.connection)
    shop.define(DEFINITIONS.replace('"TOPIC"', repr((first.name, second.name))))
    for topic, log in ((second, b), (first, a)):
        for partition, values in log.items():
            produce(shop.connection, topic, values, partition=partition)
    write_archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project).publication

    whole = {0: a[0], 1: a[1], 2: b[0], 3: b[1]}
    assert live.counts["sales"].duplicates > 5
    assert_true(shop, live, whole)
    # A topic that a source gets later comes after the others, wherever it stands.
    shop.define(DEFINITIONS.replace('"TOPIC"', repr((third.name, first.name, second.name))))
    shop.promote()
    c = records(22, 50, known=b[0])
    produce(shop.connection, third, c[1])
    write_archive.run(shop.run("archive"), shop.project)
    assert_true(shop, recompute.run(shop.run("recompute"), shop.project).publication, {**whole, 4: c[1]})


def test_one_topic_is_the_log_of_two_sources(shop: Shop) -> None:
    """Each counts its own, the other's as others', and what has no kind in quarantine; from events and from raw records."""
    log = records(23, 300)
    second = """
rest = Source(topic="TOPIC", event=Sale, event_time="at", record_filter=by_field("shop", "shop 2", "shop 3"))
rest_n = View(source=rest, measures={"n": count()})
SOURCES = (sales, rest)
VIEWS = (per_hour, refunds, rest_n)
"""
    first = DEFINITIONS.replace('identity=("id",)', 'identity=("id",), record_filter=by_field("shop", "shop 0", "shop 1")')
    shop.define(first.replace("count, ", "by_field, count, ") + second)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    others = {json.loads(value)["shop"] for value in log[0] if value and value not in MALFORMED} - {"shop 0", "shop 1"}
    kinds = [f'"{name}"'.encode() for name in (*others, "b")]
    own = {
        partition: [value for value in values if not (value and any(kind in value for kind in kinds))]
        for partition, values in log.items()
    }
    length = sum(map(len, log.values()))
    for raw in (False, True):
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication
        assert_true(shop, live, own)
        sales, rest = live.counts["sales"], live.counts["rest"]
        assert sales.others == length - sum(map(len, own.values()))
        assert sales.holes == rest.holes == 0
        assert rest.events + rest.others + sum(rest.quarantined.values()) == length
        assert rest.quarantined == sales.quarantined
        assert [row["n"] for row in answers(shop, live, "rest_n")] == [rest.events]
        assert 0 < rest.events < sales.others


def test_a_recompute_refuses_a_gap_that_is_not_accepted(shop: Shop) -> None:
    shop.sell({0: records(15, 40)[0], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    lost = records(16, 40)[0]
    shop.sell({0: lost, 1: []})
    (end,) = ArchiveLedger(shop.tables, "sales").archived().values()
    shop.delete_below({0: end + 3})
    write_archive.run(shop.run("archive"), shop.project)

    with pytest.raises(TandemError, match=r"sales-gap-1.*--accept-gap sales-gap-1"):
        recompute.run(shop.run("recompute"), shop.project)
    first = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(accepted=("sales-gap-1",))).publication
    second = recompute.run(shop.run("recompute"), shop.project).publication

    assert first.gaps == second.gaps == ("sales-gap-1",)
    assert_true(shop, second, {0: [*records(15, 40)[0], *lost[3:]], 1: []})


def test_lost_rows_and_lost_files_publish_nothing(shop: Shop) -> None:
    shop.sell(records(17, 100))
    write_archive.run(shop.run("archive"), shop.project)
    before = Publications(shop.tables).latest()
    handle = delta_tables.open_table(shop.tables, shop.tables.events("sales", decoder(shop)))
    assert handle is not None
    file = next(iter(delta_tables.files(handle)))
    rows = delta_tables.read_file(handle, file)
    path = Path(shop.tables.events("sales", decoder(shop)), file)
    kept = path.read_bytes()

    pq.write_table(rows.slice(1), path)
    with pytest.raises(Unclosed, match="has lost or doubled rows"):
        recompute.run(shop.run("recompute"), shop.project)
    path.write_bytes(kept[:100])
    with pytest.raises(Unreadable, match="Parquet"):
        recompute.run(shop.run("recompute"), shop.project)
    path.unlink()
    with pytest.raises(Unreadable, match="No such file"):
        recompute.run(shop.run("recompute"), shop.project)

    assert Publications(shop.tables).latest() == before


def decoder(shop: Shop) -> str:
    (name,) = {path.parent.name for path in Path(shop.tables.root, "log", "sales").glob("*/events")}
    assert ArchiveLedger(shop.tables, "sales").progress(name).events
    return name


def test_a_batch_view_that_lost_a_file_or_its_table_is_folded_again(shop: Shop) -> None:
    log = records(31, 200)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project).publication
    lost = {name: Path(shop.tables.view(name, view.fingerprint)) for name, view in live.views.items()}
    for path in lost["per_hour"].rglob("*.parquet"):
        path.unlink()
    shutil.rmtree(lost["refunds"])
    healed = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(views=("per_hour", "refunds")))
    assert {one.obstacle for one in healed.audits} == {"damage"}
    assert_true(shop, healed.publication, log)
