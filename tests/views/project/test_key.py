"""A source's key: the text that keeps events together, and which views need that."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.instant import APPEND_TIME
from tandem.views.measures import count
from tandem.views.project.partition_key import bind_key, record_keys, spread
from tandem.views.project.project import load_files
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source
from tandem.views.view import View
from tandem.views.windows import Window, all_time, count_window, session, sliding_count_window, tumbling
from tests.samples import share

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Sale(Event):
    at: datetime
    shop: str | None = None
    till: int = 0
    price: Annotated[Decimal, Scale(2)] = Decimal(0)
    day: date = date(2026, 11, 1)
    raw: bytes = b""
    ok: bool = True
    size: float = 0.0


def sales(key: Any = None) -> Source:
    return Source(topic="sales", event=Sale, event_time="at", key=key, name="sales")


def sale(**fields: Any) -> bytes:
    return msgspec.json.encode(Sale(at=AT, **fields))


@share(50)
@given(st.lists(st.none() | st.tuples(st.none() | st.text(max_size=5), st.integers(-5, 5))))
def test_the_key_of_a_record_is_the_text_of_its_events_value(drawn: list[tuple[str | None, int] | None]) -> None:
    """And nothing for NULL, and for what does not decode."""
    values = [b"{" if one is None else sale(shop=one[0], till=one[1]) for one in drawn]
    for key, text in (
        ("shop", lambda shop, till: shop),
        ("till", lambda shop, till: str(till)),
        ("shop || '/' || till", lambda shop, till: None if shop is None else f"{shop}/{till}"),
        ("12 // till", lambda shop, till: str(abs(12) // abs(till) * (1 if till > 0 else -1)) if till else None),
    ):
        texts = [None if one is None else text(*one) for one in drawn]
        assert record_keys(sales(key), values) == [None if each is None else each.encode() for each in texts]
    assert record_keys(sales(), values) == [None] * len(values)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("price", b"1.50"),
        ("day", b"2026-11-03"),
        ("raw", b"\xff\x00"),
        ("ok", b"true"),
        ('"at"', b"2026-11-01 12:00:00+00"),
        ("till + 9223372036854775806", b"9223372036854775807"),
        ("till + 9223372036854775807", None),
        ("CAST(timezone('Nowhere', \"at\") AS VARCHAR)", None),
    ],
)
def test_every_type_has_one_text(key: str, expected: bytes | None) -> None:
    value = sale(price=Decimal("1.50"), day=date(2026, 11, 3), raw=b"\xff\x00", till=1)
    assert record_keys(sales(key), [b"", value, b"["]) == [None, expected, None]


def test_a_record_that_the_log_will_time_has_a_key_before() -> None:
    source = Source(topic="sales", event=Sale, event_time=APPEND_TIME, key="shop")
    assert record_keys(source, [sale(shop="a")]) == [b"a"]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("shp", "key: 'shp' names a field 'shp' that Sale does not have; fields: shop"),
        ("_offset", "key: '_offset' names a field '_offset' that Sale does not have"),
        ("size", "key: 'size' is a DOUBLE, whose text depends on its digits"),
        ("count(*)", r"key: 'count\(\*\)' is refused"),
        (" ", "key: ' ' an expression is empty"),
    ],
)
def test_what_is_no_key_is_one_sentence(key: str, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        bind_key(sales(key))


def test_a_key_is_an_expression() -> None:
    with pytest.raises(DefinitionError, match=r"key \('shop',\) is not an expression over the event's fields"):
        sales(("shop",))


def test_a_wrong_key_is_found_when_the_definition_loads() -> None:
    text = (
        "from datetime import datetime\nfrom tandem import Event, Source\n\nclass Sale(Event):\n    at: datetime\n\n"
        'sales = Source(topic="sales", event=Sale, event_time="at", key="shop")\nSOURCES = (sales,)\nVIEWS = ()\n'
    )
    with pytest.raises(DefinitionError, match=r"^definitions\.py:7: source 'sales': key: 'shop' names a field"):
        load_files({"definitions.py": text.encode(), "tandem.toml": b""})


def warned(key: str | None, keys: Sequence[str], window: Window) -> str | None:
    named = {f"k{number}": text for number, text in enumerate(keys)}
    return spread(View(sales(key), keys=named, window=window, measures={"n": count()}))


@pytest.mark.parametrize("window", [count_window(2), sliding_count_window(2)])
def test_windows_in_the_order_of_the_log_need_their_keys_in_one_partition(window: Window) -> None:
    alone = warned(None, ["shop"], window)
    assert alone is not None
    assert "source 'sales' has no key" in alone
    for key, keys in (("shop", ["till"]), ("shop", []), ("shop || till", ["shop"]), ("shop", ["upper(shop)"])):
        why = warned(key, keys, window)
        assert why is not None
        assert f"the key of source 'sales', {key}, is not among the view's keys" in why
    fine: list[tuple[str | None, list[str]]] = [
        ("shop", ["shop"]),
        ("shop", ["SHOP", "till"]),
        ("upper(shop)", ["upper( shop )"]),
        ("shop || till", ["till", "shop"]),
        ("lower(shop)", ["shop"]),
        (None, ["_partition"]),
    ]
    for own, keys in fine:
        assert warned(own, keys, window) is None


@pytest.mark.parametrize("window", [all_time(), tumbling(minutes=1), session(minutes=1)])
def test_other_windows_need_no_key(window: Window) -> None:
    assert warned(None, ["shop"], window) is None
