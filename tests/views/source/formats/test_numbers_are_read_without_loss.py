"""What is read without loss is a number, in every format; nothing else is; the page says so."""

# ruff: noqa: RUF001 - digits of other scripts

import json as plain
import re
from decimal import Context, Decimal
from io import BytesIO
from math import isinf
from typing import Annotated, Any

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem import Event, Scale, avro, json
from tandem.views.source.fields.reasons import Reject
from tests.views.source.formats.numbers_table import FIRST, FORMATS, LAST, PAGE, TYPES, Integer, Money, outcome, tables

WIDE = Context(prec=200)
NUMBER = st.from_regex(
    re.compile(r"[+-]?([0-9]{1,22}\.?[0-9]{0,3}|\.[0-9]{1,3})([eE][+-]?[0-9]{1,2})?", re.ASCII), fullmatch=True
)
TEXT_FORMATS = [name for name in FORMATS if name not in ("JSON", "JSON text")]


def test_the_page_shows_what_decoders_read() -> None:
    shown = PAGE.read_text("utf-8").partition(FIRST)[2].partition(LAST)[0]
    assert shown.strip() == tables().strip(), "python -m tests.views.source.formats.numbers_table writes it"


def expected(text: str, name: str) -> str:
    """The oracle: Python's Decimal, and the limits of the columns."""
    exact = Decimal(text)
    if name == "int":
        if abs(exact) >= 10**19:
            return "out_of_range"
        if exact != exact.to_integral_value():
            return "invalid_value"
        return f"**{int(exact)}**" if -(2**63) <= exact < 2**63 else "out_of_range"
    if name == "float":
        return "out_of_range" if isinf(float(text)) else f"**{float(text) + 0.0}**"
    cents = WIDE.multiply(exact, Decimal(100))
    return (
        f"**{(exact or Decimal(0)).quantize(Decimal('0.01'), context=WIDE)}**"
        if cents == cents.to_integral_value() and abs(cents) < 10**38
        else "out_of_range"
    )


@pytest.mark.parametrize("format_", TEXT_FORMATS)
@pytest.mark.parametrize("name", ["int", "float", "Annotated[Decimal, Scale(2)]"])
@given(NUMBER)
@example("9223372036854775807")
@example("-9223372036854775808")
@example("9223372036854775808")
@example("92233720368547758080e-1")
@example("0e99")
@example("-1e309")
def test_a_text_of_digits_is_the_number_that_python_reads(format_: str, name: str, text: str) -> None:
    decoder, write = FORMATS[format_]
    assert outcome(decoder, TYPES[name], write(text)) == expected(text, name)


@given(NUMBER)
def test_a_number_of_json_is_an_integer_if_it_has_no_fraction(text: str) -> None:
    try:
        plain.loads(text)
    except ValueError:
        return
    found = outcome(json(), Integer, f'{{"n": {text}}}'.encode())
    wanted = expected(text, "int")
    assert found == wanted or (found, wanted) == ("wrong_type", "invalid_value")


class Many(Event):
    many: list[Annotated[Decimal, Scale(2)]]


def avro_text(text: str) -> bytes:
    stream = BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}]}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"n": text})
    return stream.getvalue()


AVRO = avro(schema={"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}]})


@given(st.text(st.sampled_from("0123456789.+-eE_ \t\n٥٣۵NaInfity,"), min_size=1, max_size=8))
@example(" 1")
@example("1_0")
@example("٥")
@example("1\n")
def test_a_decimals_text_is_a_number_in_every_format(text: str) -> None:
    is_number = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text, re.ASCII) is not None
    for written in (
        plain.dumps({"n": text}),
        plain.dumps({"n": text}, ensure_ascii=False),
        plain.dumps({"n": text}).replace("1", "\\u0031"),
    ):
        found = outcome(json(), Money, written.encode())
        assert found.startswith("**") or found == "out_of_range" if is_number else not found.startswith("**"), found
    found = outcome(AVRO, Money, avro_text(text))
    assert found.startswith("**") or found == "out_of_range" if is_number else not found.startswith("**"), found


@pytest.mark.parametrize(
    "value", [b'{"many":["1"," 2"]}', '{"many":["٥"]}'.encode(), b'{"many":["1\\u00200"]}', b'{"many":["1_0"]}']
)
def test_decimals_in_lists_are_numbers_too(value: bytes) -> None:
    with pytest.raises(Reject, match="not a number"):
        json().parser(Many)(value)


def test_texts_of_other_fields_are_no_decimals() -> None:
    class Noted(Event):
        n: Annotated[Decimal, Scale(2)]
        note: str

    for note in (" 1", "٥", "1_0", "東京"):
        parsed: Any = json().parser(Noted)(plain.dumps({"n": "1", "note": note}, ensure_ascii=False).encode())
        assert parsed == Noted(Decimal(1), note)
