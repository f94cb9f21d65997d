"""A document says all of a project that is data: what is made of it has the same columns, types, texts and fingerprints."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem.views import exactness
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.document.document import answers_by_code, decodes_by_code, document_of
from tandem.views.document.project_from_document import from_document, is_current
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.fingerprint import decoder_fingerprint, fingerprint
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.decoder import decoder_name
from tandem.views.source.event import event_fields, event_schema
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema, arranged_schema, bind, state_schema
from tests.views.golden import EXAMPLES

EVERYTHING = """
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from tandem import Event, Scale, Source, Unit, View, approx_count_distinct, approx_quantiles
from tandem import by_field, by_header, calendar, count, derived, session, total


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = msgspec.field(name="the name")
    rank: Annotated[int, msgspec.Meta(ge=0, le=9, description="its place")] | None = None


class Everything(Event):
    at: datetime
    id: UUID
    day: date
    size: Size
    kind: Literal["a", "b"]
    number: Annotated[int, Unit("ms")]
    ratio: float
    price: Annotated[Decimal, Scale(2), Unit("EUR")]
    raw: bytes
    inner: Inner
    inners: list[Inner]
    tags: list[Annotated[str, msgspec.Meta(min_length=1)]] = []
    usual: Size = Size.LARGE
    flag: bool = True
    said: str | None = None


things = Source(
    topic=("a", "b"), event=Everything, event_time="at", identity=("id",), record_filter=by_header("kind", "x", "y"), key="size",
    lateness=timedelta(seconds=3), metadata=("_key",),
)
lines = Source(topic="c", event=Everything, event_time="at",
    record_filter=by_field("kind", "a", "b"), max_events_per_record=3, compacted=True)
a = View(things, keys={"size": "size", "flag": "flag"}, window=calendar("day", zone="Europe/Oslo"), where="number > 1",
         measures={"n": count(), "few": count(filter="number > 3")},
         doc="what it is for", docs={"n": "how many"}, units={"n": "things"}, tolerances={"n": 0.5})
b = View(things, window=session(minutes=3),
         measures={"sum": total("price"), "q": approx_quantiles("ratio", [0.5, 0.9]), "many": approx_count_distinct("id"),
                   "part": derived("sum / many")})
SOURCES = (things, lines)
VIEWS = (a, b)
"""


def never(*_: Any) -> pa.Array:
    raise AssertionError("no code is asked for while definitions are read")


def again(of: Project) -> Project:
    return from_document(document_of(of), of.files, never)


def as_plain(view: View, source: Source) -> View:
    """The view as one that knows no fingerprint, so that its own is computed."""
    fields = {field.name: getattr(view, field.name) for field in dataclasses.fields(View)}
    plain = Source(**{field.name: getattr(source, field.name) for field in dataclasses.fields(Source)})
    return View(**{**fields, "source": plain})


def check(known: Project) -> None:
    found = again(known)
    assert is_current(document_of(known))
    assert [*found.views] == [*known.views]
    assert [*found.sources] == [*known.sources]
    for name, source in known.sources.items():
        other = found.sources[name]
        assert event_schema(other.event) == event_schema(source.event)
        told = [
            (one.name, one.key, one.optional, one.required, one.constraints, one.unit, one.doc)
            for one in event_fields(source.event)
        ]
        assert [
            (one.name, one.key, one.optional, one.required, one.constraints, one.unit, one.doc)
            for one in event_fields(other.event)
        ] == told
        if not decodes_by_code(source):
            plain = Source(**{field.name: getattr(other, field.name) for field in dataclasses.fields(Source)})
            assert decoder_fingerprint(plain) == decoder_fingerprint(source)
    for name, view in known.views.items():
        other_view = found.views[name]
        assert answer_schema(other_view).equals(answer_schema(view), check_metadata=True)
        assert state_schema(other_view) == state_schema(view)
        assert arranged_schema(other_view) == arranged_schema(view)
        assert {one: str(measure) for one, measure in other_view.measures.items()} == {
            one: str(measure) for one, measure in view.measures.items()
        }
        assert exactness.of_measures(other_view) == exactness.of_measures(view)
        assert str(other_view.window) == str(view.window)
        assert bind(other_view).placement.pinned == bind(view).placement.pinned
        assert other_view.meaning == fingerprint(view)  # type: ignore[attr-defined]  # it is described
        if not (answers_by_code(view) or decodes_by_code(view.source) or view.source.prepare):
            assert fingerprint(as_plain(other_view, other_view.source)) == fingerprint(view)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_is_the_same_again(folder: Path) -> None:
    check(project.load(folder))


def load(folder: Path, **files: str) -> Project:
    (folder / "tandem.toml").touch()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return project.load(folder)


def test_every_kind_of_field_and_parameter_is_the_same_again(tmp_path: Path) -> None:
    known = load(tmp_path, definitions=EVERYTHING)
    check(known)


def test_records_decode_alike(tmp_path: Path) -> None:
    known = load(tmp_path, definitions=EVERYTHING)
    source, other = known.sources["things"], again(known).sources["things"]
    good = {
        "at": "2026-11-01T00:00:00Z", "id": "0b6d3f5e-8f5c-4a55-9d0c-2f1a3c9f7c11", "day": "2026-11-01", "size": "s", "kind": "a",
        "number": 1, "ratio": 0.5, "price": "1.25", "raw": "Cv8=", "inner": {"the name": "x", "rank": 3}, "inners": [],
    }  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"size": "m"},
        {"inner": {"the name": "x", "rank": 10}},
        {"inner": {"name": "x"}},
        {"price": "1.255"},
        {"tags": [""]},
    ]
    values = [json.dumps({**good, **change}).encode() for change in [{}, *wrong, {"kind": "c"}, {"usual": "s"}, {"flag": None}]]
    headers = [{"kind": b"x"}] * len(values)
    at = datetime(2026, 11, 1, tzinfo=UTC)
    records = as_records(
        source, values, topic_id="a", offsets=range(len(values)), at=at, keys=[None] * len(values), headers=headers
    )
    one, two = decode(source, records), decode(other, records)
    assert one.events == two.events
    assert one.rejects == two.rejects
    assert one.events.num_rows == 2


OWN_CLASSES = """
from dataclasses import dataclass
from datetime import datetime

from tandem import Event, Source, View, count, tumbling
from tandem.views.windows import Tumbling


class Hit(Event):
    at: datetime


@dataclass(frozen=True)
class Own:
    sign: str

    def parser(self, event):
        return lambda value: event(at=datetime.fromisoformat(value.decode()))

    def listed(self, event):
        raise NotImplementedError


@dataclass(frozen=True)
class Mine(Tumbling):
    pass


hits = Source(topic="hits", event=Hit, event_time="at", decoder=Own("+"))
mine = View(hits, window=Mine(tumbling(hours=1).size), measures={"n": count()})
plain = View(hits, measures={"n": count()})
SOURCES = (hits,)
VIEWS = (mine, plain)
"""


def test_classes_of_a_project_are_code(tmp_path: Path) -> None:
    known = load(tmp_path, definitions=OWN_CLASSES)
    found = again(known)
    assert [*found.views] == ["mine", "plain"]
    assert [found.views[name].code for name in found.views] == [True, False]  # type: ignore[attr-defined]  # they are described
    assert found.sources["hits"].code  # type: ignore[attr-defined]  # it is described
    assert decoder_name(found.sources["hits"].decoder) == decoder_name(known.sources["hits"].decoder)


@pytest.mark.parametrize(
    "change",
    [
        b"{}",
        b"nothing",
        b'{"sources": [], "views": [{"name": "x"}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_document_is_refused(change: bytes) -> None:
    with pytest.raises(DefinitionError):
        from_document(change, {}, never)
    assert not is_current(change)


@pytest.mark.parametrize(
    "kind",
    [
        "os.system",
        "tandem.views.project.project.Project",
        "tandem.views.sql.engine._Engine",
        "tandem.views.measures.count.os",
        "tandem.views.measures.nothing.X",
    ],
)
def test_only_measures_windows_and_decoders_are_made(tmp_path: Path, kind: str) -> None:
    known = project.load(EXAMPLES[0])
    told = json.loads(document_of(known))
    told["views"][0]["window"] = {"class": kind, "fields": {}}
    with pytest.raises(DefinitionError, match="is not a measure, window or decoder"):
        from_document(json.dumps(told).encode(), {}, never)
