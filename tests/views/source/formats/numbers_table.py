"""The tables of numbers in docs/formats.md: `python -m tests.views.source.formats.numbers_table` writes them."""

import json as plain
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Final

from tandem import Event, Scale, csv, json, nginx_json
from tandem.infra.folders import ROOT
from tandem.views.source.event import event_fields
from tandem.views.source.fields.columns import column, unfit
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import RecordFormat

PAGE: Final = ROOT / "docs" / "formats.md"
FIRST: Final = "<!-- tables of numbers: the decoders write them -->\n"
LAST: Final = "<!-- end of the tables of numbers -->\n"


class Integer(Event):
    n: int


class Double(Event):
    n: float


class Money(Event):
    n: Annotated[Decimal, Scale(2)]


class Truth(Event):
    n: bool


TYPES: Final[dict[str, type[Event]]] = {"int": Integer, "float": Double, "Annotated[Decimal, Scale(2)]": Money, "bool": Truth}
NUMBERS: Final = "5 -5 +5 007 5.0 5.5 1.234 .5 5. 1e3 -0 9223372036854775808 1e999 NaN".split()  # noqa: SIM905  shorter
TEXTS: Final = [*NUMBERS, " 5", "1_000", "1,000", "٥", "-", "", "true"]  # noqa: RUF001  a digit of another script
TRUTHS: Final = ["true", "TRUE", "false", "1", "0", "-0", "01", "t", "yes", "on", "-", ""]
FORMATS: Final[dict[str, tuple[RecordFormat, Callable[[str], bytes]]]] = {
    "JSON": (json(), lambda text: f'{{"n":{text}}}'.encode()),
    "JSON text": (json(), lambda text: plain.dumps({"n": text}).encode()),
    "CSV": (csv(columns=("n", "m")), lambda text: f'"{text}",x'.encode()),
    "nginx text": (nginx_json(), lambda text: plain.dumps({"n": text}).encode()),
}


def outcome(decoder: RecordFormat, event: type[Event], value: bytes) -> str:
    """The number that is read, or the reason of the reject."""
    (field,) = event_fields(event)
    try:
        number: Any = decoder.parser(event)(value)
        reject = unfit(field, number.n)
        return f"**{column(field, [number.n])[0].as_py()}**" if reject is None else reject.reason
    except Reject as reject:
        return reject.reason


def tables() -> str:
    """A table for each type: a row for each text, a column for each format."""
    return "\n".join(_table(name, event) for name, event in TYPES.items())


def _table(name: str, event: type[Event]) -> str:
    head = f"`{name}`:\n\n| written | {' | '.join(FORMATS)} |\n|{' --- |' * (len(FORMATS) + 1)}\n"
    return head + "".join(_row(event, text) for text in (TRUTHS if event is Truth else TEXTS))


def _row(event: type[Event], text: str) -> str:
    cells = [outcome(decoder, event, write(text)) for decoder, write in FORMATS.values()]
    return f"| {f'`{text}`' if text else 'nothing'} | {' | '.join(cells)} |\n"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(FIRST)
    PAGE.write_text(f"{before}{FIRST}\n{tables()}\n{LAST}{rest.partition(LAST)[2]}", "utf-8")
