"""Several sources as the source of one view: each keeps its own log, cut and watermark."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, overload

from tandem.views.errors import DefinitionError
from tandem.views.source.rows_source import RowsOfTable
from tandem.views.source.source import Source
from tandem.views.value_forms import display_text

_BETWEEN: Final = "+"
"""Between the names of sources in that of all; no source's name has it."""


@dataclass(frozen=True)
class UnitedSource(Source):
    """Several sources. It decodes nothing: of its other fields only the name, labels and event time are of use.

    `lateness` is the longest of its sources, so that a window is final once none of them expects a change of it; it has an
    `identity` if one of them has, and is `compacted` if one of them is.
    """

    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        """Nothing: each of the sources has been checked."""


def unite(sources: tuple[Source, ...]) -> UnitedSource:
    """Several sources as one. Raises DefinitionError for fewer than two, or two that are the same."""
    for each in sources:
        if not isinstance(each, Source) or isinstance(each, UnitedSource):
            raise DefinitionError(f"source: {display_text(each)} is not a Source, such as source=(seen, clicks)")
    if len(sources) < 2:
        raise DefinitionError(f"source: a tuple of {len(sources)}; write source=seen, or several such as source=(seen, clicks)")
    for number, each in enumerate(sources):
        if any(each == other or (each.name and each.name == other.name) for other in sources[:number]):
            raise DefinitionError(f"source: {each.name or each.topic!r} occurs twice; each source of a view is a different one")
    values: dict[str, Any] = {field.name: getattr(sources[0], field.name) for field in fields(Source)}
    values["name"] = _BETWEEN.join(each.name for each in sources)
    values["lateness"] = max(each.lateness for each in sources)
    values["identity"] = next((each.identity for each in sources if each.identity), ())
    values["compacted"] = any(each.compacted for each in sources)
    return UnitedSource(**values, sources=sources)


def sources_of(source: Source) -> tuple[Source, ...]:
    """The sources of a view's source: itself, or each of several."""
    return source.sources if isinstance(source, UnitedSource) else (source,)


def names_of(source: str) -> list[str]:
    """The names of the sources that the name of a view's source stands for."""
    return source.split(_BETWEEN)


def all_sources(sources: Iterable[Source]) -> dict[str, Source]:
    """The sources of several views by name, each once."""
    return {each.name: each for source in sources for each in sources_of(source)}


class OneOrSeveral:
    """The field `source` of a view: a tuple of sources is stored as one UnitedSource."""

    @overload
    def __get__(self, view: None, kind: type) -> "OneOrSeveral": ...

    @overload
    def __get__(self, view: object, kind: type) -> Source: ...

    def __get__(self, view: object | None, kind: type) -> "Source | OneOrSeveral":
        """The source or sources; as an attribute of the class there is none, so the field has no default."""
        if view is None:
            raise AttributeError("source")
        source: Source = vars(view)["source"]
        return source

    def __set__(self, view: object, source: Source | tuple[Source, ...] | RowsOfTable) -> None:
        vars(view)["source"] = unite(source) if isinstance(source, tuple) else source
