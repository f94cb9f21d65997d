"""An answer becomes a table of pandas or Polars without loss, and shows itself in a notebook."""

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

from tandem.serving.read.tabular import SHOWN, Tabular
from tandem.views.errors import TandemError

HUGE = 10**37 + 1
EIGHT = datetime(2026, 11, 1, 8, tzinfo=UTC)
COLUMNS: dict[str, tuple[pa.DataType, str, Any]] = {
    "flag": (pa.bool_(), "boolean", True),
    "small": (pa.int64(), "integer", 2**63 - 1),
    "huge": (pa.decimal128(38, 0), "integer", HUGE),
    "price": (pa.decimal128(20, 2), "decimal", Decimal("12345678901234567.89")),
    "whole": (pa.decimal128(20, 0), "decimal", Decimal(3)),
    "ratio": (pa.float64(), "float", 0.1),
    "name": (pa.string(), "text", "<b>Åse & Co</b>"),
    "raw": (pa.binary(), "binary", b"\xff\x00"),
    "day": (pa.date32(), "date", date(2026, 11, 1)),
    "at": (pa.timestamp("us", "UTC"), "time", EIGHT),
    "many": (pa.list_(pa.int64()), "list", [1, None, 2**62 + 1]),
    "parts": (pa.struct([("low", pa.int64()), ("high", pa.decimal128(38, 2))]), "struct", {"low": None, "high": Decimal("0.10")}),
}


class Answer(Tabular):
    def __init__(self, copies: int = 1) -> None:
        schema = pa.schema([pa.field(name, of, metadata={"kind": kind}) for name, (of, kind, _) in COLUMNS.items()])
        values = {name: [Decimal(value) if name == "huge" else value, None] * copies for name, (_, _, value) in COLUMNS.items()}
        self.table = pa.table(values, schema=schema)

    def caption(self) -> str:
        return "a <view>: 2 rows"


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def test_a_pandas_frame_has_every_value_and_no_null_becomes_a_number() -> None:
    frame = Answer().to_pandas()
    assert list(frame) == list(COLUMNS)
    for name, (_, _, value) in COLUMNS.items():
        first, second = frame[name].astype(object)
        python = first.to_pydatetime() if name == "at" else first
        assert python == value, name
        assert (type(python) is type(value)) or name in ("flag", "small", "ratio"), name
        assert second is None or repr(second) in ("<NA>", "NaT"), name
    types = {name: str(frame[name].dtype) for name in ("flag", "small", "huge", "price", "ratio", "at")}
    assert types == {
        "flag": "boolean", "small": "Int64", "huge": "object", "price": "object", "ratio": "Float64", "at": "datetime64[us, UTC]"
    }  # fmt: skip


@pytest.mark.parametrize("of", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_an_integer_of_any_width_stays_one_beside_a_null(of: pa.DataType) -> None:
    answer = Answer()
    largest = 2 ** (of.bit_width - str(of).startswith("int")) - 1
    answer.table = pa.table({"n": pa.array([largest, None], of)})
    first, second = answer.to_pandas()["n"].astype(object)
    assert (first, repr(second)) == (largest, "<NA>")


def test_a_polars_frame_has_every_value() -> None:
    frame = Answer().to_polars()
    assert frame.columns == list(COLUMNS)
    for name, (_, _, value) in COLUMNS.items():
        first, second = frame[name].to_list()
        assert same(first, value), name
        assert second is None or name == "parts", name
    assert [str(frame[name].dtype) for name in ("huge", "price")] == ["Int128", "Decimal(precision=20, scale=2)"]


def test_no_rows_have_the_same_columns() -> None:
    none = Answer(0)
    assert list(none.to_pandas()) == none.to_polars().columns == list(COLUMNS)
    assert none.to_pandas().dtypes.equals(Answer().to_pandas().dtypes)


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1] == "td":
            self.cells[-1] += data


def test_a_notebook_shows_escaped_cells_of_the_first_rows() -> None:
    page = Cells()
    page.feed(Answer()._repr_html_())
    assert set(page.tags) == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    shown = dict(zip(COLUMNS, page.cells, strict=False))
    assert shown["name"] == "<b>Åse & Co</b>"
    assert (shown["huge"], shown["at"], shown["flag"]) == (str(HUGE), "2026-11-01 08:00:00Z", "true")
    assert (shown["many"], shown["parts"]) == (f"[1, NULL, {2**62 + 1}]", "low=NULL high=0.10")
    assert page.cells[len(COLUMNS) :] == ["NULL"] * len(COLUMNS)
    assert repr(Answer()) == "<Answer a <view>: 2 rows>"
    long = Answer(1000)._repr_html_()
    assert (long.count("<tr>"), f"the first {SHOWN} are shown" in long) == (SHOWN + 1, True)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        TandemError, match=r"^to_polars\(\) needs the package polars, which is not installed: `pip install polars`"
    ):
        Answer().to_polars()


def test_a_number_beyond_polars_is_refused() -> None:
    answer = Answer()
    answer.table = pa.table({"n": pa.array([Decimal(10**40)], pa.decimal256(60, 0))})
    with pytest.raises(TandemError, match="'n' has a number of more than 38 digits"):
        answer.to_polars()
    assert answer.to_pandas()["n"][0] == 10**40
