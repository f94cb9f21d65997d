"""Units and texts about fields, keys and measures reach the reader and change no number."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
import pytest

from tandem import Event, Source, Unit, View, count, mean, tumbling
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.source.event import event_fields
from tandem.views.view import answer_schema, state_schema


class Request(Event):
    at: datetime
    path: str
    ms: int
    size: int | None


class Described(Event):
    at: datetime
    path: Annotated[str, msgspec.Meta(description="without the query")]
    ms: Annotated[int, Unit("ms"), msgspec.Meta(description="until the last byte")]
    size: Annotated[int, Unit("B")] | None


def view(event: type[Event], **told: Any) -> View:
    return View(
        Source(topic="requests", event=event, event_time="at", name="requests"),
        keys={"path": "path", "ms": "ms", "seconds": "ms // 1000"},
        window=tumbling(minutes=1),
        measures={"hits": count(), "size": mean("size")},
        name="traffic",
        **told,
    )


TOLD = view(
    Described,
    doc="How much is asked for.",
    docs={"hits": "answered or not", "path": "as it was sent"},
    units={"size": "B", "seconds": "s"},
)


def metadata(of: View) -> dict[str, dict[str, str]]:
    return {field.name: {k.decode(): v.decode() for k, v in field.metadata.items()} for field in answer_schema(of)}


def test_fields_say_their_units_and_texts() -> None:
    told = {field.name: (field.unit, field.doc) for field in event_fields(Described)}
    assert told == {"at": ("", ""), "path": ("", "without the query"), "ms": ("ms", "until the last byte"), "size": ("B", "")}


def test_answers_carry_them() -> None:
    found = metadata(TOLD)
    assert found["path"] == {"kind": "text", "doc": "as it was sent"}
    assert found["ms"] == {"kind": "integer", "unit": "ms", "doc": "until the last byte"}
    assert found["seconds"] == {"kind": "integer", "unit": "s"}
    assert found["hits"] == {"kind": "integer", "doc": "answered or not"}
    assert found["size"] == {"kind": "float", "unit": "B"}
    assert metadata(view(Request))["ms"] == {"kind": "integer"}


def test_they_change_no_number() -> None:
    plain = view(Request)
    assert fingerprint(TOLD) == fingerprint(plain)
    assert decoder_fingerprint(TOLD.source) == decoder_fingerprint(plain.source)
    assert state_schema(TOLD).equals(state_schema(plain), check_metadata=True)
    assert view(Described) != TOLD


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"units": {"hit": "1"}}, "view 'traffic', units: no key or measure 'hit'; there are hits"),
        ({"docs": {"hits": ""}}, "view 'traffic', docs: 'hits' is given '', which is not a text of one line"),
        ({"units": {"hits": 1}}, "view 'traffic', units: 'hits' is given 1, which is not a text of one line"),
        ({"doc": 7}, "view 'traffic', doc: 7 is not a text"),
    ],
)
def test_what_says_nothing_of_a_part_is_refused(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        answer_schema(view(Request, **told))


@pytest.mark.parametrize("name", ["", "m\ns", 1, None])
def test_a_unit_is_a_text_of_one_line(name: Any) -> None:
    with pytest.raises(DefinitionError, match='a unit is a text of one line, such as "ms"'):
        Unit(name)
