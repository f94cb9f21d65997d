"""A project made from its document (tandem.views.document.document), without its code.

The document may come from a process that ran a project's code, so nothing of it is trusted: only frozen dataclasses of the
platform are made, by their own checks, and event types of fields alone.
"""

import base64
import binascii
import dataclasses
import enum
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
import pyarrow as pa

from tandem.views.document.described_definitions import DescribedSource, DescribedView
from tandem.views.document.document import CLASS, ELSEWHERE, FUNCTION, TIMING, meaning
from tandem.views.errors import DefinitionError, said_by
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import Measure
from tandem.views.project.project import Project
from tandem.views.remote_code import STEPS, OutsideMeasure, OutsideWindow, Run
from tandem.views.source.decoder import Decoder
from tandem.views.source.event import Event, Scale, Unit
from tandem.views.view import bind
from tandem.views.windows import Window
from tandem.views.windows.placement import Columns, EventInputs, Placement, Steps, Timing
from tandem.views.windows.step import Step

_SCALARS: Final = {kind.__name__: kind for kind in (bool, int, float, str, bytes, date, datetime, UUID)}
_FACTORIES: Final = {"list": list, "dict": dict}
_OF_THE_PLATFORM: Final = (
    "tandem.views.source.formats.",
    "tandem.views.measures.",
    "tandem.views.windows.",
    "tandem.views.source.record_filter",
)

_PLAIN: Final = (
    *("name", "topic", "event_time", "identity", "plausible", "lateness", "idle", "clock_skew", "dedup_window", "metadata"),
    *("key", "max_events_per_record", "compacted", "record_filter"),
)

Document = Mapping[str, Any]


def is_current(document: bytes) -> bool:
    """Whether this platform gives the project's views the fingerprints that the document has."""
    try:
        known = json.loads(document)["meaning"]
        return bool(known == meaning(known["packages"]))
    except Exception:  # noqa: BLE001  whatever it is, it is not a document of this platform
        return False


def from_document(document: bytes, files: Mapping[str, bytes], run: Run) -> Project:
    """The project of a document and the files that it was made of; `run` runs code that is the project's own.

    Raises DefinitionError for what is not a document of a project.
    """
    try:
        told = json.loads(document)
        sources = {one["name"]: _source(one) for one in told["sources"]}
        views = {one["name"]: _view(one, sources, run) for one in told["views"]}
        for view in views.values():
            bind(view)
    except DefinitionError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # a document may hold anything
        raise DefinitionError(f"the document of the definitions cannot be used: {said_by(error)}") from error
    return Project(None, sources, views, files)


def _source(told: Document) -> DescribedSource:
    prepare = told["prepare"]
    return DescribedSource(
        event=_event(told["event"]),
        decoder=_decoder(told["decoder"]),
        prepare=None if prepare is None else _giving(prepare[FUNCTION], _schema(prepare["schema"])),
        code=bool(told["code"]),
        **{name: _value(told[name]) for name in _PLAIN},
    )


def _decoder(told: Any) -> Decoder:
    if isinstance(told, Mapping) and FUNCTION in told:
        return _named(told[FUNCTION], ["value", *told["parameters"]])
    decoder: Decoder = _value(told)
    return decoder


def _named(name: str, parameters: Sequence[str], gives: Any = None) -> Callable[..., Any]:
    """A function of this name and these parameters, which stands for one of the project."""

    def stands_for(*_: Any) -> Any:
        if gives is None:
            raise DefinitionError(f"the code of {name} is not here")
        return gives

    stands_for.__name__ = stands_for.__qualname__ = str(name)
    stands_for.__signature__ = Signature(  # type: ignore[attr-defined]  # functions take it
        [Parameter(one, Parameter.POSITIONAL_OR_KEYWORD) for one in parameters]
    )
    return stands_for


def _giving(name: str, schema: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    return _named(name, ["events"], pa.Table.from_batches([], schema=schema))


def _view(told: Document, sources: Mapping[str, DescribedSource], run: Run) -> DescribedView:
    name = told["name"]
    return DescribedView(
        sources[told["source"]],
        keys=told["keys"],
        window=_window(name, told["window"], run),
        measures={measure: _measure(name, measure, one, run) for measure, one in told["measures"].items()},
        where=told["where"],
        name=name,
        doc=told["doc"],
        docs=told["docs"],
        units=told["units"],
        tolerances=told["tolerances"],
        meaning=str(told["fingerprint"]),
        code=any(ELSEWHERE in one for one in (told["window"], *told["measures"].values())),
    )


def _window(view: str, told: Document, run: Run) -> Window:
    if ELSEWHERE not in told:
        window: Window = _value(told)
        return window
    own = told[ELSEWHERE]
    steps = tuple(name for name in STEPS if name in own["steps"])
    if "merge" not in steps:
        raise DefinitionError("the document holds a window that does not merge")
    placement = Placement(
        Steps(fold=Step({}), merge=Step({})),
        Columns(tuple(_schema(own["states"])), tuple(_schema(own["answers"]))),
        EventInputs(reads=tuple(own["reads"])),
        Timing(**{name: _value(own["timing"][name]) for name in TIMING}),
        independent=bool(own["independent"]),
        in_order=bool(own["in_order"]),
        pinned=tuple(own["pinned"]),
    )
    return OutsideWindow(view, own["text"], tuple(own["inputs"]), steps, placement, run)


def _outside(view: str, name: str, told: Document, run: Run) -> Measure:
    return OutsideMeasure(
        view,
        name,
        told["text"],
        tuple(told["inputs"]),
        tuple((state.name, state.type) for state in _schema(told["states"])),
        _schema(told["answer"]).field(0).type,
        told["kind"],
        _value(told["approximate"]),
        run,
    )


def _measure(view: str, name: str, told: Document, run: Run) -> Measure:
    found: Measure = _outside(view, name, told[ELSEWHERE], run) if ELSEWHERE in told else _value(told["data"])
    return found if "filter" not in told else Filtered(found, told["filter"])


def _event(told: Document) -> type[Event]:
    fields = [_field(one) for one in told["fields"]]
    made: Any = msgspec.defstruct(
        told["name"],
        fields,
        bases=(Event,),
        rename={one["name"]: one["key"] for one in told["fields"]},
        array_like=told["array_like"],
        forbid_unknown_fields=told["forbid_unknown_fields"],
        tag_field=told["tag_field"],
        tag=told["tag"],
        kw_only=True,
        frozen=True,
    )
    event: type[Event] = made  # derived from it
    return event


def _field(told: Document) -> tuple[Any, ...]:
    bare = _bare(told)
    annotation = _annotated(bare, told)
    if "default" not in told:
        return told["name"], annotation
    default = told["default"]
    if "factory" in default:
        return told["name"], annotation, msgspec.field(default_factory=_FACTORIES[default["factory"]])
    value = bare[default["member"]] if "member" in default else _value(default["value"])
    return told["name"], annotation, msgspec.field(default=value)


def _annotated(bare: Any, told: Document) -> Any:
    marks: list[Any] = [] if "scale" not in told else [Scale(told["scale"])]
    constraints = {name: _value(value) for name, value in told["constraints"].items()}
    if constraints or told["doc"]:
        marks.append(msgspec.Meta(**constraints, description=told["doc"] or None))
    if told["unit"]:
        marks.append(Unit(told["unit"]))
    for mark in marks:
        bare = Annotated[bare, mark]
    return bare | None if told["optional"] else bare


def _bare(told: Document) -> Any:
    if "items" in told:
        return list[_annotated(_bare(told["items"]), told["items"])]  # type: ignore[misc]  # made while it runs
    if "struct" in told:
        return _event(told["struct"])
    if "choices" in told:
        return Literal[tuple(told["choices"])]
    if "enum" in told:
        return enum.Enum(told["enum"], [(name, value) for name, value in told["members"]])
    return Decimal if "scale" in told else _SCALARS[told["scalar"]]


def _schema(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, binascii.Error, OSError) as error:
        raise DefinitionError(f"the document holds columns that are none: {said_by(error)}") from error


def _value(told: Any) -> Any:
    """The value that `document.data` has written. Raises DefinitionError, or whatever the value's own checks raise."""
    if isinstance(told, list):
        return [_value(one) for one in told]
    if not isinstance(told, Mapping):
        return told
    if CLASS in told:
        return _made(told[CLASS], {name: _value(one) for name, one in told["fields"].items()})
    ((kind, value),) = told.items()
    match kind:
        case "bytes":
            return base64.b64decode(value, validate=True)
        case "decimal":
            try:
                return Decimal(value)
            except InvalidOperation as error:
                raise DefinitionError(f"{value!r} is not a number") from error
        case "datetime":
            return datetime.fromisoformat(value)
        case "date":
            return date.fromisoformat(value)
        case "timedelta":
            days, seconds, microseconds = value
            return timedelta(days, seconds, microseconds)
        case "tuple":
            return tuple(_value(one) for one in value)
        case "mapping":
            return {_value(name): _value(one) for name, one in value}
        case _:
            raise DefinitionError(f"{kind!r} is not a kind of value")


def _made(name: str, fields: Mapping[str, Any]) -> Any:
    """A frozen dataclass of the platform, by its own checks; no module is imported for it."""
    module, _, kind = name.rpartition(".")
    found = getattr(sys.modules.get(module), kind, None) if module.startswith(_OF_THE_PLATFORM) else None
    if not isinstance(found, type) or not dataclasses.is_dataclass(found) or found.__module__ != module:
        raise DefinitionError(f"{name!r} is not a measure, window or decoder of this platform")
    return found(**{field.name: fields[field.name] for field in dataclasses.fields(found) if field.init})
