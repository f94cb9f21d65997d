"""With `escape_formulas` no text of CSV begins like a formula, numbers stay numbers, and nothing but an apostrophe is added."""

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.http.protocol.formats import Page, rendered, rows_of
from tandem.serving.http.protocol.media_types import ARROW, CSV, JSON, NDJSON
from tandem.serving.read.row_bytes import FORMULAS
from tests.serving.http.served import Asker, Served
from tests.serving.world import World, hit

FORMULA = '=HYPERLINK("https://evil.example","a"),\''
PAGES = [FORMULA, "+1", "-1", "@x", "\tx", "\rx", "'=", "", "/a", "\uff1dx", None]
ON = {"escape_formulas": "true"}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    world = World(tmp_path_factory.mktemp("world"))
    world.append(0, *(hit(page, -7, price="-0.50") for page in PAGES))
    world.trigger()
    with Served(world).asker() as asker:
        yield asker


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


texts = st.one_of(st.none(), st.text(max_size=3), st.builds(str.__add__, st.sampled_from(FORMULAS), st.text(max_size=3)))


@given(st.lists(st.tuples(texts, st.none() | st.integers(-5, 5), st.none() | st.decimals(-5, 5, places=2)), max_size=8))
def test_only_texts_that_begin_like_a_formula_get_an_apostrophe(rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = [pa.string(), pa.int64(), pa.decimal128(9, 2)]
    table = pa.table([pa.array(column, of) for column, of in zip(columns, types, strict=True)], ["=t", "i", "d"])
    plain, safe = (
        list(csv.reader(io.StringIO(rendered(Page(table, {}, {}, rows_of=rows_of, escaped=on), CSV).decode(), newline="")))
        for on in (False, True)
    )
    assert (plain[0], safe[0]) == (["=t", "i", "d"], ["'=t", "i", "d"])
    for before, after, (text, _, number) in zip(plain[1:], safe[1:], rows, strict=True):
        assert after[1:] == before[1:]
        assert not after[0].startswith(FORMULAS)
        assert after[0] == (f"'{text}" if text is not None and text.startswith(FORMULAS) else before[0])
        assert after[2] == "" if number is None else Decimal(after[2]) == number


def test_every_route_of_rows_escapes_only_on_request(asker: Asker) -> None:
    keys = {"keys": [{"page": page} for page in PAGES]}
    statement = {"statement": 'SELECT page AS "=page", bytes, price FROM per_page'}
    csv_ = {"Accept": CSV}
    one = {"key.page": FORMULA, "window": "2026-11-01T12:00"}
    for ask in (
        lambda more: asker.get("/views/per_page/rows", params=more, headers=csv_),
        lambda more: asker.get("/views/per_page/row", params={**one, **more}, headers=csv_),
        lambda more: asker.post("/views/per_page/lookup", params=more, json=keys, headers=csv_),
        lambda more: asker.post("/sql", params=more, json=statement, headers=csv_),
    ):
        plain, safe = ask({}), ask(ON)
        assert (plain.status_code, safe.status_code) == (200, 200), safe.text
        assert plain.headers.get("etag") is None or plain.headers["etag"] != safe.headers["etag"]
        found = read(safe.content)
        assert found
        assert not any(row[name].startswith(FORMULAS) for row in found for name in row if name.endswith("page"))
        assert {(row["bytes"], row["price"]) for row in found} == {("-7", "-0.50")}
        texts = [{name.lstrip("'"): cell for name, cell in row.items()} for row in found]
        stripped = [{name: cell[1:] if cell[:1] == "'" and cell != "'=" else cell for name, cell in row.items()} for row in texts]
        assert stripped == read(plain.content)


@pytest.mark.parametrize("media", [JSON, NDJSON, ARROW])
def test_other_formats_refuse_to_escape(asker: Asker, media: str) -> None:
    for answer in (
        asker.get("/views/per_page/rows", params=ON, headers={"Accept": media}),
        asker.get(
            "/views/per_page/row", params={**ON, "key.page": "/a", "window": "2026-11-01T12:00"}, headers={"Accept": media}
        ),
        asker.post("/sql", params=ON, json={"statement": "SELECT 1"}, headers={"Accept": media}),
    ):
        assert answer.status_code == 400
        assert json.loads(answer.content)["detail"].endswith("send Accept: text/csv")


def test_the_page_requests_escaping_wherever_it_saves_csv() -> None:
    folder = Path(__file__).parents[4] / "serving" / "page"
    saving = {path.name: path.read_text("utf-8") for path in folder.rglob("*.js") if "text/csv" in path.read_text("utf-8")}
    assert set(saving) == {"downloads.js"}
    for text in saving.values():
        assert all("escape_formulas=true" in line for line in text.splitlines() if "text/csv" in line)
