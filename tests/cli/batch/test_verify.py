"""`verify` finds whether both paths and the published answers agree; it leaves nothing behind."""

import json
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.verify.oracle_sample import Sampled
from tandem.batch.verify.replay_compare import Agreement, ReplayComparison
from tandem.cli.__main__ import main
from tandem.cli.batch import verify
from tandem.infra import kafka
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.audits import AuditFigures
from tandem.ledger.publish.publications import Publications
from tandem.speed.source.archive_replay import ReplayedArchive
from tests.batch.shop import DEFINITIONS, MALFORMED, Log, Shop, records, together, truth
from tests.stack import new_topic


def test_verify_needs_views_or_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    for arguments in ([], ["sales", "--all"]):
        assert main(["verify", *arguments, "--project", str(tmp_path)]) == 1
        assert "name the views to verify, or use --all" in capsys.readouterr().err
    assert main(["verify", "--all", "--keys", "-1", "--project", str(tmp_path)]) == 2
    assert "--keys" in capsys.readouterr().err
    assert main(["verify", "--all", "--project", str(tmp_path)]) == 1
    assert "nothing is published yet" in capsys.readouterr().err


def sampled(
    keys: int, *large: dict[str, str | None], rows: int = 0, left_out: tuple[str, ...] = (), windows: int = 0
) -> list[str]:
    """The lines about a sample of a view."""
    figures = AuditFigures(rows, 0, 0, 0.0, 0.0, 0.0, 0.0, None, ())
    compared = (ReplayComparison("sales", "n", ("published", "oracle"), figures),) if rows else ()
    return list(verify._sampled(Sampled("sales", keys, large, left_out, compared, windows)))


def test_the_text_names_the_sampled_keys() -> None:
    assert sampled(4, rows=9) == ["4 keys of sales compared with the oracle: of 9 answers none differs"]
    (windows,) = sampled(4, rows=9, windows=12)
    assert windows == "4 keys of sales compared with the oracle, large ones in 12 windows: of 9 answers none differs"
    _, large, left_out = sampled(1, {"shop": None}, {"shop": "a"}, rows=1, left_out=("own", "of_own"))
    assert large == "keys of sales with too many events for the oracle, more than 20000: shop=NULL; shop=a"
    assert left_out == "measures of sales that the oracle cannot evaluate: own, of_own"


def test_no_comparison_is_no_success() -> None:
    told = "nothing of sales to compare with the oracle: "
    assert sampled(0) == [f"{told}it has no answers"]
    assert sampled(0, {})[0] == f"{told}every drawn key has too many events"
    assert sampled(0, {})[1].endswith(": the only one")
    assert sampled(3, left_out=("own",))[0] == f"{told}it evaluates none of the measures"


@pytest.mark.parametrize("counted", ["ahead", "rounded"])
def test_layers_that_count_the_same_events_otherwise_disagree(counted: str) -> None:
    def source_with(batch: Counts, speed: Counts) -> verify._Verified:
        replayed, agreement = ReplayedArchive(1, speed, {}), Agreement(batch, {}, ())
        return verify._Verified("sales", LOG_START, replayed, agreement, Counts(events=3), {}, ())

    once, twice = (Counts.from_json({"events": 3, counted: number}) for number in (1, 2))
    assert source_with(once, once).agrees
    assert not source_with(once, twice).agrees
    assert not source_with(twice, once).agrees


def with_rates(log: Log) -> Log:
    """The log with a rate in each sale, of which every second has a digit too many."""
    numbered = count()

    def with_rate(value: bytes | None) -> bytes | None:
        if value is None or value in MALFORMED or b"rate" in value:
            return value
        return (b'{"rate":2.675,' if next(numbered) % 2 else b'{"rate":2.5,') + value[1:]

    return {partition: [with_rate(value) for value in values] for partition, values in log.items()}


@pytest.mark.broker
def test_both_paths_and_the_published_answers_agree(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop.open(broker, new_topic(broker), tmp_path)
    with (tmp_path / "tandem.toml").open("a") as settings:
        settings.write("[speed]\nmax_events = 60\n")
    rate = 'rate: Annotated[Decimal, Scale(2, rounding="half_even")]'
    imports = "from datetime import datetime\nfrom decimal import Decimal\nfrom typing import Annotated"
    rounding = DEFINITIONS.replace("cents: int", f"cents: int\n    {rate}")
    rounding = rounding.replace("import Event", "import Event, Scale, Table, rollup")
    by_day = "by_day = rollup(per_hour, keys=(), window=tumbling(days=1))\n"
    by_day += "sale_of = Table(sales, key={'shop': 'shop'}, gone='cents < 0')\n"
    by_day += (
        "towns = Table.from_file('towns.csv', key='shop')\nby_town = View(source=sales, lookup={'t': towns.now(shop='shop')}, "
    )
    by_day += "keys={'town': 't.town'}, measures={'n': count()})\n"
    by_day += "shops = Source(topic='TOPIC', event=Sale, event_time='at', name='shops')\n"
    by_day += "latest_of = Table(shops, key={'shop': 'shop'}, fields={'cents': 'cents'})\n"
    by_day += "looking = View(source=sales, lookup={'p': latest_of.as_of(shop='shop')}, keys={'shop': 'shop'}, "
    by_day += "window=tumbling(hours=1), measures={'latest': total('p.cents')})\nSOURCES ="
    (tmp_path / "towns.csv").write_text("shop,town\nshop 1,Oslo\nshop 2,Rome\n")
    rounding = rounding.replace("SOURCES =", by_day).replace(
        "(per_hour, refunds)", "(per_hour, refunds, by_day, sale_of, by_town, latest_of, looking)"
    )
    rounding = rounding.replace("SOURCES = (sales,)", "SOURCES = (sales, shops)").replace("TOPIC", shop.topic.name)
    shop.define(rounding.replace("from datetime import datetime", imports))
    one = with_rates(records(1, 100))
    shop.sell(one)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    two = with_rates(records(2, 60, known=[value for values in one.values() for value in values]))
    shop.sell(two)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    live = Publications(shop.tables).latest()
    assert live is not None
    capsys.readouterr()

    assert main(["verify", "--all", "--json", "--project", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    sales, expected = found["sources"]["sales"], truth(together(one, two))
    expected_roundings = sum(b"2.675" in (value or b"") for values in together(one, two).values() for value in values)
    assert found["agree"]
    assert sales["batches"] == 4  # two of each run, since a micro-batch holds what was counted together
    for counts in sales["counts"].values():
        assert (counts["events"], counts["duplicates"]) == (expected.events, expected.duplicates)
        assert sum(counts["quarantined"].values()) == expected.quarantined
        assert counts["rounded"] == expected_roundings
    between = {tuple(each["between"]) for each in sales["compared"]}
    assert between == {("speed", "batch"), ("published", "batch"), ("published", "speed")}
    assert {each["view"] for each in sales["compared"]} == {"per_hour", "refunds", "sale_of_versions", "by_town", "looking"}
    assert {each["view"] for each in found["sources"]["shops"]["compared"]} == {"latest_of_versions"}
    assert {each["rows"] for each in sales["compared"] if each["view"] == "per_hour"} == {len(expected.per_hour)}
    per_hour, refunds, versions, towns, looking = sales["sampled"]
    assert (per_hour["view"], per_hour["keys"], per_hour["answers"]) == ("per_hour", 4, 4 * len(expected.per_hour))
    assert (refunds["view"], refunds["keys"], refunds["answers"]) == ("refunds", 1, 2)
    assert (versions["view"], towns["view"], looking["view"]) == ("sale_of_versions", "by_town", "looking")
    assert (looking["keys"] > 0, looking["answers"] > 0) == (True, True)
    assert {each["differ"] for each in sales["sampled"]} == {0}
    assert Publications(shop.tables).latest() == live
    assert list(Path(shop.tables.root, "scratch").iterdir()) == []

    assert main(["query", "by_day", "--json", "--project", str(tmp_path)]) == 0
    days = json.loads(capsys.readouterr().out)
    assert sum(row["cents"] for row in days["rows"]) == sum(cents for _, cents, _, _ in expected.per_hour.values())
    assert days["provenance"]["rollup_of"] == ["per_hour"]

    table = DeltaTable(shop.tables.view("per_hour", live.views["per_hour"].fingerprint))
    table.update(updates={"cents": "cents + 1"}, predicate="shop = 'shop 1'")
    # A rollup's states are those of its root, which is verified.
    assert main(["verify", "by_day", "--json", "--project", str(tmp_path)]) == 1
    found = json.loads(capsys.readouterr().out)
    (per_hour,) = found["sources"]["sales"]["sampled"]
    hours = len([shop for shop, _ in expected.per_hour if shop == "shop 1"])
    assert {each["measure"]: each["differ"] for each in per_hour["compared"]} == {
        "n": 0,
        "cents": hours,
        "biggest": 0,
        "usual": 0,
    }
    (cents,) = (each for each in per_hour["compared"] if each["differ"])
    assert (cents["between"], cents["cause"]) == (["published", "oracle"], "unexplained")
    for example in cents["examples"]:
        truth_of = expected.per_hour["shop 1", example["row"]["window_start"]]
        assert (example["oracle"], example["published"]) == (truth_of[1], truth_of[1] + 1)
    wrong = {(each["measure"], tuple(each["between"])) for each in found["sources"]["sales"]["compared"] if each["differ"]}
    assert wrong == {("cents", ("published", "batch")), ("cents", ("published", "speed"))}
    assert list(Path(shop.tables.root, "scratch").iterdir()) == []
