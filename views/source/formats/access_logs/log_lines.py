"""Lines of web servers and load balancers: literal texts, and slots whose values fields take by name.

The layout of a line becomes one regular expression with a group for each slot that the event type needs. Its quantifiers are
possessive wherever the next literal ends a value, so that no crafted line makes the search backtrack far.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any, Final

import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import builder, named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import Read, check_text, list_reader, reader, with_damage, without_mark
from tandem.views.source.fields.time_patterns import clock_reader, pattern_reader
from tandem.views.source.format import Parse
from tandem.views.source.time_notation import Format

REQUEST: Final = "request"
"""The slot with the request's first line, which has the three further values of REQUEST_LINE."""
REQUEST_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]++) (\S++|\S.*(?= HTTP/))(?: (HTTP/\d+(?:\.\d+)?))?", re.ASCII)
"""METHOD TARGET PROTOCOL; a request of HTTP/0.9 has no protocol."""
_NO_REQUEST: Final = (None, None, None)
_END: Final = r"\r?\n?"
_INT_DIGITS: Final = 19


@dataclass(frozen=True)
class Slot:
    """The place of one value in a line.

    * `name`: the key of the field that takes the value.
    * `pattern`: its regular expression, without groups.
    * `type` and `read`: the column for which `read` turns the text into a value; with `only`, no other column takes it.
    * `empty`: the texts that stand for a missing value; `zero`: what a required field of `type` then is, None for a reject.
    * `format`: how its time is written, where the server's configuration says so; a field's own Format stands for it.
    * `unescape`: from the logged text to the text, for other columns.
    * `several`: what separates the values of a list.
    """

    name: str
    pattern: str
    type: pa.DataType | None = None
    read: Read | None = None
    only: bool = False
    empty: tuple[str, ...] = ("-",)
    zero: Any = None
    format: Format | None = None
    unescape: Callable[[str], str] | None = None
    several: re.Pattern[str] | None = None


@dataclass(frozen=True)
class LineLayout:
    """The layout of all lines of a log; `what` names it in errors.

    * `parts`: literal texts and slots in their order.
    * `request`: the fields that take method, target and protocol of the slot `request`.
    * `tail`: the number of last slots that lines may lack, each with its literal text; further text after all slots is ignored.
    """

    what: str
    parts: tuple[str | Slot, ...]
    request: tuple[str, ...] = ()
    tail: int | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots in their order."""
        return tuple(part for part in self.parts if isinstance(part, Slot))


def line_parser(layout: LineLayout, event: type[Event]) -> Parse:
    """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
    fields = named_fields(event, layout.what)
    slots = {slot.name: slot for slot in layout.slots}
    request = tuple(name for name in layout.request if name not in slots) if REQUEST in slots else ()
    takes = {
        field.key: name for field in fields if (name := _name(field, layout, (*slots, *request), event.__name__)) is not None
    }
    captures = {*takes.values(), *([REQUEST] if any(name in takes.values() for name in request) else [])}
    order = [slot.name for slot in layout.slots if slot.name in captures]
    splits = REQUEST in captures and any(name in captures for name in request)
    names = (*order, *(layout.request if splits else ()))
    wanted = [
        (field, names.index(takes[field.key]), _reader(field, slots.get(takes[field.key]) or _part_of_request(slots[REQUEST])))
        for field in fields
        if field.key in takes
    ]
    needed = [index for field, index, _ in wanted if takes[field.key] in request and not field.optional]
    # Attributes of a field would cost a fifth of a line's time.
    places = [(field.key, index, read, field.optional) for field, index, read in wanted]
    logged_request = order.index(REQUEST) if splits else -1
    matching = re.compile(_expression(layout, frozenset(captures)), re.ASCII).fullmatch
    build = builder(event)

    def parse(value: bytes) -> Any:
        damage = None
        if value.startswith(BOM_UTF8):
            value = without_mark(value)
        try:
            line = value.decode()
        except UnicodeDecodeError as error:
            damage, line = Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}"), with_damage(value)
        match = matching(line)
        if match is None:
            raise damage or Reject("format", _first_fault(layout, line))
        texts: Sequence[str | None] = match.groups()
        if splits:
            text = texts[logged_request] or ""
            split = REQUEST_LINE.fullmatch(text)
            texts = (*texts, *(split.groups() if split else _NO_REQUEST))
            for index in needed:
                if texts[index] is None:
                    raise Reject("request", f"request {text!r} has no {names[index]}")
        if damage:
            for key, index, _, _ in places:
                check_text(key, texts[index])
        values = {}
        for key, index, read, optional in places:
            logged = texts[index]
            if logged is not None:
                values[key] = read(logged) if read else logged
            elif optional:
                values[key] = None
        return build(values)

    return parse


def integer(name: str) -> Read:
    """The reader of a slot's digits; raises Reject for more than 64 bits have."""

    def whole(text: str) -> int:
        if len(text) > _INT_DIGITS:
            raise Reject("out_of_range", f"{name} has {len(text)} digits")
        return int(text)

    return whole


def _name(field: Field, layout: LineLayout, names: Sequence[str], event: str) -> str | None:
    """The slot or part of the request that a field takes, by its key; None if it has a default instead."""
    place = f"{event}.{field.name}"
    name = field.key if field.key in names else field.name
    if name not in names:
        if field.required:
            raise DefinitionError(f"{place}: {layout.what} has no such field; fields: {listed(name, names)}")
        return None
    same = [slot for slot in layout.slots if slot.name == name]
    if len(same) > 1:
        raise DefinitionError(f"{place}: {layout.what} has {name} {len(same)} times; remove one of them, or the field")
    slot = same[0] if same else Slot(name, "", several=None)
    if slot.only and field.arrow != slot.type:
        raise DefinitionError(f"{place}: {layout.what} gives this field as {slot.type}, not {field.arrow}")
    if field.fields or (
        field.items is not None and (field.type is dict or slot.several is None or field.items.fields or field.items.items)
    ):
        raise DefinitionError(f"{place}: {layout.what} has one text for this field, which is not of type {field.arrow}")
    return name


def _part_of_request(slot: Slot) -> Slot:
    return replace(slot, empty=())


def _reader(field: Field, slot: Slot) -> Read | None:
    """The function from a logged text to the field's value; None if the text is the value."""
    if field.items is not None:
        assert slot.several is not None
        return list_reader(field, slot.several.split, slot.empty)
    if slot.format is not None and field.type in (datetime, date, time) and not (field.notation and field.notation.format):
        return reader(field, _time_reader(field, slot.format), empty=slot.empty)
    read = slot.read if slot.read is not None and field.arrow == slot.type and field.notation is None else None
    if read is not None and slot.zero is not None and not field.optional:
        empty, zero, digits = slot.empty, slot.zero, read
        return lambda text: zero if text in empty else digits(text)
    if read is None and slot.unescape is not None:
        by_type, unescape = reader(replace(field, optional=False), empty=()), slot.unescape
        # Servers escape a quote, but for Apache's "" in place of an empty text.
        if field.type is str:
            read = lambda text: unescape(text) if "\\" in text or text == '""' else text  # noqa: E731  needs no second name
        else:
            read = lambda text: by_type(unescape(text) if "\\" in text or text == '""' else text)  # noqa: E731
    elif read is None and field.type is str and not field.optional:
        return None
    return reader(field, read, empty=slot.empty)


def _time_reader(field: Field, format_: Format) -> Read:
    """The reader of a time in the server's format, in the field's zone if the format has none."""
    if field.type is time:
        if format_.has_date or {"z", "Z"} & set(format_.directives):
            raise DefinitionError(f"field {field.key}: the log's times, {format_}, have a date or a zone: declare it as datetime")
        return clock_reader(format_)
    format_.check_date()
    zone = field.notation.zone if field.notation else None
    if zone is None and field.type is datetime and not {"z", "Z"} & set(format_.directives):
        raise DefinitionError(
            f"field {field.key}: the log's times, {format_}, have no zone: annotate the field with Zone, such as "
            f'Annotated[datetime, Zone("Europe/Berlin")]'
        )
    return pattern_reader(format_, zone, dates=field.type is date)


def _expression(layout: LineLayout, captures: frozenset[str]) -> str:
    """The regular expression of a line, with a group for each of these slots in their order."""
    first_of_tail = len(layout.slots) - (layout.tail or 0)
    pieces: list[str] = []
    number = opened = 0
    for part in layout.parts:
        if isinstance(part, Slot):
            pieces.append(f"({part.pattern})" if part.name in captures else f"(?:{part.pattern})")
            number += 1
        elif number < first_of_tail or number == len(layout.slots):
            pieces.append(re.escape(part))
        else:
            quote = part[: part.startswith('"')]
            pieces.append(f"{re.escape(quote)}(?:{re.escape(part.removeprefix(quote))}")
            opened += 1
    more = "" if layout.tail is None else r"(?:[ \t].*)?"
    return "".join(pieces) + more + ")?" * opened + _END


def _first_fault(layout: LineLayout, line: str) -> str:
    """A sentence that names the first slot that does not fit the format."""
    pattern, name = "", layout.slots[0].name
    for part in layout.parts:
        if isinstance(part, Slot):
            pattern, name = f"{pattern}(?:{part.pattern})", part.name
            continue
        # What follows the last space of a literal opens the next value.
        place = part.rfind(" ") + 1 or len(part)
        pattern += re.escape(part[:place])
        if not re.match(pattern, line, re.ASCII):
            break
        pattern += re.escape(part[place:])
    return f"field {name} is missing, incomplete, or not followed by what comes next in the format"
