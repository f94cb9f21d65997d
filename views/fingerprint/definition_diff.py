"""What differs between two projects' definitions, in words, and what each difference means for the numbers.

| kind       | what it means                                                         | what is computed, from where            |
| ---------- | --------------------------------------------------------------------- | --------------------------------------- |
| `none`     | no number: formatting, texts, units, labels, order, a view's name     | nothing                                 |
| `additive` | something was added: a new view, or measures of a view                | what is new, from the events table      |
| `breaking` | an existing number means something else, or is gone                   | the view, from the events table         |
| `source`   | records become other events                                           | events from the archive, then the view, |
|            |                                                                       | unless it reads none of what was added  |
|            |                                                                       | (unread_fields.py)                      |

Two trees of named parts are compared (views/fingerprint/part_tree.py), the same whose hash is the fingerprint. So a view is
unchanged if and only if its fingerprint is, and if it is not, at least one part has changed and is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, get_args

from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.dated import DatedView
from tandem.views.composite.rollup import Rollup
from tandem.views.composite.table import kind_of
from tandem.views.composite.together import several
from tandem.views.definition_text import literal
from tandem.views.fingerprint.hashed_parts import LABELS, decoder_fingerprint, fingerprint, source_meaning, view_meaning
from tandem.views.fingerprint.part_tree import Difference, differences
from tandem.views.fingerprint.unread_fields import unread_fields
from tandem.views.project.project import Project
from tandem.views.source.source import Source
from tandem.views.view import View

Kind = Literal["none", "additive", "breaking", "source"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""The kinds, from the least to the most serious."""

Status = Literal["unchanged", "added", "removed", "changed"]
Origin = Literal["nothing", "events", "archive"]

_VERSIONS: Final = "another version of Tandem, or of a package that they reach, computed them"
_Definition = TypeVar("_Definition", Source, View)


@dataclass(frozen=True)
class DefinitionChange:
    """One difference, as a sentence without a full stop."""

    words: str
    kind: Kind


@dataclass(frozen=True)
class SourceChanges:
    """The differences of a source. It is unchanged if only texts, formatting and order differ.

    `rebuilt`: its events table must be built from the archive, because it is new or records become other events.
    """

    name: str
    status: Status
    changes: tuple[DefinitionChange, ...] = ()
    rebuilt: bool = False

    @property
    def kind(self) -> Kind:
        """The most serious kind of its changes."""
        return _worst(self.changes)


@dataclass(frozen=True)
class ViewChanges:
    """The differences of a view. It is unchanged if and only if its fingerprint is.

    * `added_measures`: the new measures, if nothing else changed; the states of the others stay valid.
    * `computed_from`: the table from which the view must be computed; None if it need not be.
    * `unread_fields`: the optional fields that the source's event gained, if nothing else changed. If they reject no archived
      record, the view keeps its batch view.
    """

    name: str
    status: Status
    changes: tuple[DefinitionChange, ...] = ()
    added_measures: tuple[str, ...] = ()
    computed_from: Origin = "nothing"
    unread_fields: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """The most serious kind of its changes."""
        return _worst(self.changes)


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints by which tables were computed, by name: a source's is its decoder's, a view's its own."""

    sources: Mapping[str, str]
    views: Mapping[str, str]


@dataclass(frozen=True)
class DefinitionChanges:
    """The differences of every source and view: those of the new definitions in their order, then the removed ones.

    `files` are the files whose text differs, even if the meaning is the same.
    """

    sources: tuple[SourceChanges, ...]
    views: tuple[ViewChanges, ...]
    files: tuple[str, ...] = ()

    @property
    def different(self) -> bool:
        """Whether a source or a view changed."""
        return any(source.status != "unchanged" for source in self.sources) or any(
            view.status != "unchanged" for view in self.views
        )


def compare(published: Project, wanted: Project, computed: Fingerprints | None = None) -> DefinitionChanges:
    """The differences between the wanted and the published definitions, and the tables `computed` from these, if given.

    Equal definitions may have another meaning under another version of Tandem, or of a package that their code reaches.
    """
    by_name = computed or Fingerprints({}, {})
    sources = tuple(_source(*pair, by_name.sources) for pair in _pairs(published.sources, wanted.sources))
    rebuilt = {source.name for source in sources if source.rebuilt}
    was = {name: by_name.views.get(name, fingerprint(view)) for name, view in published.views.items()}
    renamed = continued(was, {name: fingerprint(view) for name, view in wanted.views.items()})
    views = (
        _several_sources(name, before, after)
        if (after is not None and several(after) and not isinstance(after, Rollup))
        or (after is None and before is not None and several(before) and not isinstance(before, Rollup))
        else _rollup(name, before, after)
        if isinstance(after, Rollup) or (after is None and isinstance(before, Rollup))
        else _renamed(name, renamed[name])
        if after is not None and renamed.get(name, name) != name
        else _view(name, None if isinstance(before, Rollup) else before, after, by_name.views, rebuilt)
        for name, before, after in _pairs(_with_parts(published), _with_parts(wanted))
    )
    return DefinitionChanges(
        sources,
        tuple(views),
        tuple(path for path in sorted({*published.files, *wanted.files}) if published.files.get(path) != wanted.files.get(path)),
    )


def continued(published: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The names of views that have the fingerprint of a published view, with that view's name.

    It is the view of the same name, or else a view that no longer exists: then the view was renamed.
    """
    same = {name: name for name, meaning in wanted.items() if published.get(name) == meaning}
    gone: dict[str, list[str]] = {}
    for name, meaning in published.items():
        if name not in same:
            gone.setdefault(meaning, []).append(name)
    renamed = {name: gone[wanted[name]].pop(0) for name in wanted if name not in same and gone.get(wanted[name])}
    return same | renamed


def _pairs(
    published: Mapping[str, _Definition], wanted: Mapping[str, _Definition]
) -> list[tuple[str, _Definition | None, _Definition | None]]:
    names = dict.fromkeys((*wanted, *published))
    return [(name, published.get(name), wanted.get(name)) for name in names]


def _source(name: str, before: Source | None, after: Source | None, decoders: Mapping[str, str]) -> SourceChanges:
    if before is None or after is None:
        return SourceChanges(name, *_come_or_gone("source", came=after is not None), rebuilt=after is not None)
    changes = [
        DefinitionChange(each.words, _kind_in_source(each)) for each in differences(source_meaning(before), source_meaning(after))
    ]
    if decoders.get(name, decoder_fingerprint(before)) != decoder_fingerprint(before):
        changes.append(DefinitionChange(f"events: {_VERSIONS}", "source"))
    labels = [DefinitionChange(words, "none") for words in _labels(before, after)]
    told = _once([*changes, *labels])
    rebuilt = decoder_fingerprint(after) != decoders.get(name, decoder_fingerprint(before))
    same = not labels and not rebuilt and source_meaning(before) == source_meaning(after)
    return SourceChanges(name, "unchanged" if same else "changed", told, rebuilt)


def _view(name: str, before: View | None, after: View | None, fingerprints: Mapping[str, str], rebuilt: set[str]) -> ViewChanges:
    if after is None:
        return ViewChanges(name, *_come_or_gone("view", came=False))
    origin: Origin = "archive" if after.source.name in rebuilt else "events"
    if before is None:
        return ViewChanges(name, *_come_or_gone("view", came=True), computed_from=origin)
    found = differences(view_meaning(before), view_meaning(after))
    changes = [DefinitionChange(each.words, _kind_in_view(each, origin)) for each in found]
    computed = fingerprints.get(name, fingerprint(before))
    if computed != fingerprint(before):
        changes.append(DefinitionChange(f"numbers: {_VERSIONS}", "source" if origin == "archive" else "breaking"))
    told = _once(changes)
    if fingerprint(after) == computed:
        return ViewChanges(name, "unchanged", told)
    added = tuple(measure for measure in after.measures if measure not in before.measures)
    unread = unread_fields(before, after) if computed == fingerprint(before) else ()
    alone = _worst(told) == "additive" and not any(isinstance(view, DatedView) for view in (before, after))
    return ViewChanges(name, "changed", told, added if alone else (), origin, unread)


def _with_parts(project: Project) -> dict[str, View]:
    """All views, also the parts of those over several sources, for which something is computed."""
    return {**project.every_view, **project.views}


def _several_sources(name: str, before: View | None, after: View | None) -> ViewChanges:
    """The change of a view over several sources, for which nothing is computed: its states are those of its parts."""
    if after is None:
        return ViewChanges(name, *_come_or_gone("view", came=False))
    if before is None:
        return ViewChanges(name, *_come_or_gone("view", came=True))
    parts = differences(view_meaning(before), view_meaning(after))
    changes = _once(DefinitionChange(each.words, _kind_in_view(each, "events")) for each in parts)
    return ViewChanges(name, "unchanged" if fingerprint(before) == fingerprint(after) else "changed", changes)


def _rollup(name: str, before: View | None, after: View | None) -> ViewChanges:
    """The change of a rollup, for which nothing is computed: its states are those of its root."""
    if not isinstance(after, Rollup):
        return ViewChanges(name, *_come_or_gone("rollup", came=False))
    of = "" if isinstance(after, RowsView) else "of view "
    what = f"{kind_of(after)} {of}{after.parent.name!r}"
    if before is None:
        return ViewChanges(name, "added", (DefinitionChange(f"new {what}", "additive"),))
    if not isinstance(before, Rollup):
        return ViewChanges(name, "changed", (DefinitionChange(f"was a view of events, and is a {what}", "breaking"),))

    def kind(each: Difference) -> Kind:
        parents = before.parent, after.parent
        return _worst_of_parents(*parents) if each.path == ("parent",) else _kind_in_view(each, "events")

    changes = _once(DefinitionChange(each.words, kind(each)) for each in differences(view_meaning(before), view_meaning(after)))
    return ViewChanges(name, "unchanged" if fingerprint(before) == fingerprint(after) else "changed", changes)


def _worst_of_parents(before: View, after: View) -> Kind:
    """The most serious kind of the changes of a rollup's parent, whose own parent may have changed."""
    if isinstance(before, Rollup) and isinstance(after, Rollup):
        return _worst(_rollup("", before, after).changes)
    parts = differences(view_meaning(before), view_meaning(after))
    return _worst(tuple(DefinitionChange(each.words, _kind_in_view(each, "events")) for each in parts))


def _renamed(name: str, was: str) -> ViewChanges:
    """The change of a renamed view: it keeps the batch view of the old name."""
    return ViewChanges(name, "added", (DefinitionChange(f"means what view {was!r} means, and keeps its batch view", "none"),))


def _come_or_gone(what: str, *, came: bool) -> tuple[Status, tuple[DefinitionChange, ...]]:
    return (
        ("added", (DefinitionChange(f"new {what}", "additive"),))
        if came
        else ("removed", (DefinitionChange(f"{what} removed", "breaking"),))
    )


def _once(changes: Iterable[DefinitionChange]) -> tuple[DefinitionChange, ...]:
    """Report a function that several parts reach once, with its most serious kind."""
    kinds: dict[str, Kind] = {}
    for change in changes:
        kinds[change.words] = max(kinds.get(change.words, "none"), change.kind, key=KINDS.index)
    return tuple(DefinitionChange(words, kind) for words, kind in kinds.items())


def _labels(before: Source, after: Source) -> Iterator[str]:
    for name in LABELS:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{name}: {literal(old)} -> {literal(new)}"


def _worst(changes: tuple[DefinitionChange, ...]) -> Kind:
    return max((change.kind for change in changes), key=KINDS.index, default="none")


def _kind_in_source(difference: Difference) -> Kind:
    if difference.how == "rewritten":
        return "none"
    return "source" if difference.path[:1] == ("decoder",) else "breaking"


def _kind_in_view(difference: Difference, origin: Origin) -> Kind:
    if difference.how == "rewritten":
        return "none"
    match difference.path:
        case ("source",):  # a changed decoder, whose events table may exist already
            return "source" if origin == "archive" else "breaking"
        case ("source", "decoder", *_):
            return "source"
        case ("measures", _) if difference.how == "added":
            return "additive"
    return "breaking"
