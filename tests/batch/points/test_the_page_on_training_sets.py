"""docs/training-sets.md shows what its command prints, and what is refused has a sentence."""

import json
import shlex
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem import Event, Scale, Source, View, count
from tandem.batch.archive import write_archive
from tandem.batch.points.check_answers import check_answers
from tandem.batch.points.points import BadFeatures, points
from tandem.batch.points.spine import BadSpine, Spine, load_spine
from tandem.batch.recompute import recompute
from tandem.cli.__main__ import main
from tandem.cli.batch.checked_answers import load_answers, output
from tandem.cli.batch.points import FILE, save
from tandem.infra import clock
from tandem.infra.settings import load
from tandem.serving.http.requests.answer_log import answer_log
from tests.batch.shop import MemoryShop, Shop
from tests.documented import Command, File, steps
from tests.serving.http.served import Served

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, total, tumbling


class Order(Event):
    at: datetime
    city: str
    price: int


orders = Source(topic="TOPIC", event=Order, event_time="at", name="orders")
MEASURES = {"orders": count(), "revenue": total("price")}
sales = View(source=orders, keys={"city": "city"}, window=tumbling(hours=1), measures=MEASURES)
SOURCES = (orders,)
VIEWS = (sales,)
"""


class Line(Event):
    at: datetime
    price: Annotated[Decimal, Scale(2)]


class Parcel(Event):
    at: datetime
    seen: datetime
    day: date
    paid: bool
    price: Annotated[Decimal, Scale(2)]
    units: int


def order(at: str, city: str, price: int) -> bytes:
    return json.dumps({"at": at, "city": city, "price": price}).encode()


@pytest.fixture
def sold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryShop:
    shop = MemoryShop.of(tmp_path, monkeypatch)
    shop.define(DEFINITIONS)
    monkeypatch.chdir(tmp_path)
    for minute in (1, 4, 15):
        at = datetime(2026, 11, 1, 8, minute, tzinfo=UTC)
        shop.log.append([order(at.isoformat(), "OSLO", minute)], at=at)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    return shop


def test_the_command_on_the_page_prints_what_the_page_shows(sold: MemoryShop) -> None:
    spine, command, *_ = steps("training-sets.md")
    assert isinstance(spine, File)
    assert isinstance(command, Command)
    spine.write(sold.folder)
    shown = save(
        Path("train") / FILE,
        points(sold.run("points"), load_spine(Path(spine.name), "at"), {"sales": ("orders", "revenue")}),
        "append",
    )
    assert command.missing(f"{shown.shown}\n") is None, shown.shown
    saved = pq.ParquetFile(Path("train") / FILE).read()
    assert saved["sales__orders"].to_pylist() == [2, 3, None]
    assert saved["sales__revenue"].to_pylist() == [5, 20, None]
    assert json.loads(saved.schema.metadata[b"tandem"])["publication"] == 2


def test_the_page_computes_again_what_a_server_logged(sold: MemoryShop) -> None:
    *_, settings, command = steps("training-sets.md")
    assert isinstance(settings, File)
    assert isinstance(command, Command)
    settings.write(sold.folder)
    serving = load(sold.folder, {}).serving
    with answer_log(msgspec.structs.replace(sold.settings, serving=serving), now=clock.now) as log:
        world: Any = SimpleNamespace(state=sold.settings.folder, folder=sold.folder, tables=sold.tables)
        with Served(world, answers=log).asker() as asker:
            for city, row in (("OSLO", {"orders": 3, "revenue": 20}), ("ROME", None)):
                answer = asker.get("/views/sales/row", params={"key.city": city, "window": "2026-11-01T08:00:00Z"}).json()
                assert answer["row"] is row or {name: answer["row"][name] for name in ("orders", "revenue")} == row
            assert asker.post("/views/sales/lookup", json={"keys": [{"city": "OSLO"}]}).json()["total"] == 1
    answers = [*load_answers(sold.settings.folder / "logs" / "answers.log")]
    shown = output(check_answers(sold.run("points"), answers))
    assert command.missing(f"{shown.shown}\n") is None, shown.shown


def of_times(*times: str, **columns: list[object]) -> Spine:
    microseconds = [int(datetime.fromisoformat(time).timestamp() * 1_000_000) for time in times]
    return Spine(pa.table(columns), np.array(microseconds, dtype=np.int64))


@pytest.mark.parametrize(
    ("columns", "features", "why"),
    [
        ({"city": ["OSLO"]}, {"cells": ("n",)}, "no view 'cells' is published; views: sales"),
        ({"city": ["OSLO"]}, {"sales": ("m",)}, "view 'sales' has no measure 'm'; measures: "),
        (
            {"town": ["OSLO"]},
            {"sales": ("orders",)},
            "the spine has no column 'city' for key 'city' of view",
        ),
        ({"city": [[1]]}, {"sales": ("orders",)}, "column 'city' of the spine does not fit key 'city' of view 'sales'"),
        ({"city": ["OSLO"], "sales__orders": [1]}, {"sales": ("orders",)}, "the spine has a column 'sales__orders' already"),
    ],
)
def test_wrong_features_are_refused_with_what_is_right(
    sold: MemoryShop, columns: dict[str, list[object]], features: dict[str, tuple[str, ...]], why: str
) -> None:
    with pytest.raises((BadFeatures, BadSpine)) as refused:
        points(sold.run("points"), of_times("2026-11-01T08:05:00Z", **columns), features)
    assert why in str(refused.value)


def test_a_column_for_a_key_that_no_view_has_is_refused(sold: MemoryShop) -> None:
    spine = of_times("2026-11-01T08:05:00Z", city=["OSLO"], town=["ROME"])
    with pytest.raises(BadFeatures, match="no view of these features has a key 'ctiy', which --key names; keys: city"):
        points(sold.run("points"), spine, {"sales": ("orders",)}, columns={"ctiy": "town"})


def test_windows_in_the_order_of_the_log_have_no_row_at_a_time(sold: MemoryShop) -> None:
    sold.define(DEFINITIONS.replace("tumbling(hours=1)", "sliding_count_window(2)").replace("tumbling", "sliding_count_window"))
    sold.promote()
    with pytest.raises(BadFeatures, match=r"view 'sales' has window sliding_count_window\(2\), in the order of the log"):
        points(sold.run("points"), of_times("2026-11-01T08:16:00Z", city=["OSLO"]), {"sales": ("orders",)})


def test_a_time_after_the_watermark_is_refused_only_if_strict(sold: MemoryShop) -> None:
    spine = of_times("2026-11-01T08:10:00Z", "2026-11-01T08:16:00Z", city=["OSLO", "OSLO"])
    with pytest.raises(BadSpine, match=r"1 rows of the spine are after .* the first of them row 2 at 2026-11-01T08:16"):
        points(sold.run("points"), spine, {"sales": ("orders",)}, strict=True)
    assert points(sold.run("points"), spine, {"sales": ("orders",)}).rows["sales__orders"].to_pylist() == [2, 3]


def test_a_spine_without_rows_has_features_without_values(sold: MemoryShop) -> None:
    spine = Spine(pa.table({"city": pa.array([], pa.string())}), np.empty(0, np.int64))
    computed = points(sold.run("points"), spine, {"sales": ("orders", "revenue")}).rows
    assert (computed.num_rows, computed.column_names) == (0, ["city", "sales__orders", "sales__revenue"])


@pytest.mark.each_run("0150", "NA")
@pytest.mark.parametrize("city", ["0150", "+47", "TRUE", "1.50", "NA", "2026-11-01"])
def test_a_text_of_a_csv_file_stays_as_it_is_written(sold: MemoryShop, city: str) -> None:
    at = datetime(2026, 11, 1, 8, 20, tzinfo=UTC)
    sold.log.append([order(at.isoformat(), city, 7)], at=at)
    write_archive.run(sold.run("archive"), sold.project)
    recompute.run(sold.run("recompute"), sold.project)
    Path("spine.csv").write_text(f"city,at,label\n{city},2026-11-01T08:30:00Z,3\n")
    rows = points(sold.run("points"), load_spine(Path("spine.csv"), "at"), {"sales": ["orders"]}).rows
    assert rows.select(["label", "sales__orders"]).to_pylist() == [{"label": 3, "sales__orders": 1}]
    if city.isdigit():
        assert rows["city"].to_pylist() == [city]


def test_a_decimal_of_a_csv_file_has_all_of_its_digits(tmp_path: Path) -> None:
    lines = Source(topic="lines", event=Line, event_time="at")
    view = View(lines, keys={"price": "price"}, measures={"n": count()}, name="lines")
    (tmp_path / "spine.csv").write_text("price,at\n12345678901234567.89,2026-11-01T08:30:00Z\n,2026-11-01T08:30:00Z\n")
    keys = load_spine(tmp_path / "spine.csv", "at").with_keys(view, {})
    assert keys["_key_0"].to_pylist() == [Decimal("12345678901234567.89"), None]


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        ("k\n2026-11-01T08:00:00\n", "seen", "timestamp[s] is not a time with a zone"),
        ("k\n2026-11-01\n", "seen", "date32[day] is not a time with a zone"),
        ("k\n1793520000\n", "seen", "int64 is not a time with a zone"),
        ("k\n2026-11-01T08:30:00Z\n", "day", "2026-11-01 08:30:00+00:00 would become 2026-11-01"),
        ("k\n2\n", "paid", "2 would become True"),
        ("k\n2026-11-01T08:30:00+01:00\n", "seen", None),
        ("k\n2026-11-01\n", "day", None),
        ("k\n3.0\n", "units", None),
        ('k\n007\n""\n', "units", None),
        ("k\ntrue\n", "paid", None),
    ],
)
def test_a_column_becomes_a_key_only_if_no_value_changes(tmp_path: Path, text: str, key: str, why: str | None) -> None:
    lines = Source(topic="lines", event=Parcel, event_time="at")
    view = View(lines, keys={"k": key}, measures={"n": count()}, name="lines")
    first, *others = text.splitlines()
    (tmp_path / "spine.csv").write_text("\n".join([f"{first},at", *(f"{each},2026-11-01T08:30:00Z" for each in others)]))
    spine = load_spine(tmp_path / "spine.csv", "at")
    if why is None:
        assert spine.with_keys(view, {}).num_rows == len(others)
        return
    with pytest.raises(BadSpine) as refused:
        spine.with_keys(view, {})
    assert why in str(refused.value)


def test_a_float_for_a_decimal_key_keeps_its_digits() -> None:
    view = View(
        Source(topic="lines", event=Line, event_time="at"), keys={"price": "price"}, measures={"n": count()}, name="lines"
    )
    at = "2026-11-01T08:30:00Z"
    assert of_times(at, price=[19.99]).with_keys(view, {})["_key_0"].to_pylist() == [Decimal("19.99")]
    with pytest.raises(BadSpine, match=r"0\.125 would become 0\.12"):
        of_times(at, price=[0.125]).with_keys(view, {})


def test_long_numbers_of_a_csv_file_keep_their_digits(tmp_path: Path) -> None:
    (tmp_path / "spine.csv").write_text(f"order,at\n{2**70},2026-11-01T08:30:00Z\n7,2026-11-01T08:30:00Z\n")
    assert load_spine(tmp_path / "spine.csv", "at").rows["order"].to_pylist() == [str(2**70), "7"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("city,at\nOSLO,2026-11-01T08:05:00\n", "is timestamp[s], which is not a time with a zone"),
        ("city,at\nOSLO,\n", "is null, which is not a time with a zone"),
        ("city,at\nOSLO,2026-11-01T08:05:00Z\nROME,\n", "column 'at' is empty in 1 rows, the first of them row 2"),
        ("city,when\nOSLO,2026-11-01T08:05:00Z\n", "has no column 'at'; columns: city, when"),
    ],
)
def test_a_spine_needs_times_with_a_zone(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "spine.csv").write_text(text)
    with pytest.raises(BadSpine) as refused:
        load_spine(tmp_path / "spine.csv", "at")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"at": [1_762_000_000]}, None),
        ({"at": [93_000_000_000_000]}, "column 'at' has a time that no event has"),
        ({"at": [1, 900_000_000_000]}, "column 'at' has a time that no event has: row 2 is not in the years 1 to 9999"),
        ({"at": [1], "city": ["OSLO"], "city ": ["ROME"]}, "has 2 columns 'city'; name each column once"),
        ({"at": [1], "at ": [1]}, "has 2 columns 'at'; name each column once"),
    ],
)
def test_a_parquet_spine_has_each_column_once_and_times_that_fit(
    tmp_path: Path, columns: dict[str, list[Any]], why: str | None
) -> None:
    seconds = pa.timestamp("s", "UTC")
    arrays = [pa.array(values, seconds if name.strip() == "at" else pa.string()) for name, values in columns.items()]
    pq.write_table(pa.Table.from_arrays(arrays, [name.strip() for name in columns]), tmp_path / "spine.parquet")
    if why is None:
        assert load_spine(tmp_path / "spine.parquet", "at").times.tolist() == [1_762_000_000_000_000]
        return
    with pytest.raises(BadSpine) as refused:
        load_spine(tmp_path / "spine.parquet", "at")
    assert why in str(refused.value)


def test_the_files_of_a_folder_have_the_same_columns(tmp_path: Path) -> None:
    at = pa.array([datetime(2026, 11, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    for name, city in {"b": "OSLO", "a.parquet/part": "ROME"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"city": [city], "at": at}), tmp_path / f"{name}.parquet")
    assert load_spine(tmp_path, "at").rows["city"].to_pylist() == ["ROME", "OSLO"]
    pq.write_table(pa.table({"city": [1], "at": at}), tmp_path / "c.parquet")
    with pytest.raises(BadSpine) as refused:
        load_spine(tmp_path, "at")
    columns = [f"city {kind}, at timestamp[us, tz=UTC]" for kind in ("int64", "string")]
    assert str(refused.value) == (
        f"{tmp_path / 'c.parquet'} has columns {columns[0]}, but {tmp_path / 'a.parquet/part.parquet'} has {columns[1]}; "
        "all files of a spine need the same"
    )


def test_a_delta_table_is_no_folder_of_parquet_files(tmp_path: Path) -> None:
    at = pa.array([datetime(2026, 11, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path / "spine", pa.table({"city": ["OSLO", "ROME"], "at": at}))
    DeltaTable(tmp_path / "spine").delete("city = 'OSLO'")
    with pytest.raises(BadSpine, match="spine is a Delta table, whose folder also has the files of its earlier versions"):
        load_spine(tmp_path / "spine", "at")


@pytest.mark.slow
@pytest.mark.broker
def test_the_command_runs_on_spark(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.define(DEFINITIONS)
    monkeypatch.chdir(tmp_path)
    now = datetime.now(UTC)
    shop.sell({0: [order(now.isoformat(), "OSLO", price) for price in (1, 2)], 1: [order(now.isoformat(), "ROME", 5)]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    late = datetime.fromtimestamp(now.timestamp() + 600, UTC)
    times = pa.array([late, late, now.replace(year=2020)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"town": ["ROME", "OSLO", "OSLO"], "at": times}), "spine.parquet")
    line = "points spine.parquet --time at --features sales.orders,sales.revenue --key city=town --out train --json"
    assert main([*shlex.split(line), "--project", str(shop.folder)]) == 0
    saved = pq.ParquetFile(Path("train") / FILE).read()
    same_hour = late.hour == now.hour
    assert saved["sales__revenue"].to_pylist() == ([5, 3, None] if same_hour else [None, None, None])
    assert main([*shlex.split(line), "--project", str(shop.folder)]) == 1
