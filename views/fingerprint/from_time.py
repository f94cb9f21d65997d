"""Definitions that count from a time on: the wanted ones for windows that begin then or later, the live ones for windows before.

A view whose newest definition stays keeps its earlier ones, whatever happens to other views. A view that changes without a time
counts its whole history by the new definition, and so does a new view.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from tandem.views.composite.dated import before, newest_definition
from tandem.views.composite.together import over
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint, source_meaning
from tandem.views.fingerprint.part_tree import differences
from tandem.views.project.earlier_files import EarlierFiles, Files, earlier_files
from tandem.views.project.project import Project, one_definition, with_earlier
from tandem.views.source.event import event_fields
from tandem.views.source.source import Source
from tandem.views.source.united_source import sources_of
from tandem.views.view import View

_FIELDS: Final = ("decoder", "event", "fields")


def from_time(wanted: Project, live: Project, times: Mapping[str, datetime]) -> Project:
    """The wanted definitions, each changed view from the time of its source on; a source without a time has none.

    Raises DefinitionError, naming the view, if the definitions of one view cannot be united, or its source has changed in a way
    that would change windows before the time.
    """
    stored, earlier = earlier_files(live.files), dict[str, list[tuple[Files, datetime]]]()
    for name, view in wanted.views.items():
        if name not in live.views:
            continue
        chain = _chain(view, live.views[name], stored, times.get(view.source.name))
        if chain:
            earlier[name] = chain
    return with_earlier(wanted, EarlierFiles(wanted.files, earlier))


def views_to_change(wanted: Project, live: Project) -> list[str]:
    """The views that would count from a time on: those of both that differ in meaning, by their newest definitions."""
    return [
        name for name, view in wanted.views.items() if name in live.views and not _same(view, newest_definition(live.views[name]))
    ]


def refuse_several_sources(wanted: Project, live: Project) -> None:
    """Raise DefinitionError for a view over several sources that has changed: its parts have one definition for all times.

    A change of what it derives from its parts is one, too, although the parts stay the same.
    """
    for name, view in wanted.united.items():
        if name in live.united and not _same_over_sources(view, live.united[name]):
            raise DefinitionError(one_definition(name))


def _same_over_sources(view: View, was: View) -> bool:
    """Whether two views over several sources mean the same, over the sources of the first."""
    sources = {each.name: each for each in sources_of(view.source)}
    try:
        return fingerprint(view) == fingerprint(over(was, {each: sources[each.name] for each in sources_of(was.source)}))
    except (DefinitionError, KeyError):
        return False


def _chain(view: View, live: View, stored: EarlierFiles, time: datetime | None) -> list[tuple[Files, datetime]]:
    kept = list(stored.views.get(live.name, ()))
    if time is None:
        return kept if _same(view, newest_definition(live)) else []
    count = sum(until < time for _, until in kept)
    if _same(view, newest_definition(before(live, time))):
        return kept[:count]
    _refuse_other_events(view, live.source, time)
    newest = [*(files for files, _ in kept), stored.newest][count]
    return [*kept[:count], (newest, time)]


def _same(view: View, other: View) -> bool:
    """Whether two definitions mean the same over the source of the first."""
    try:
        return fingerprint(newest_definition(view)) == fingerprint(replace(newest_definition(other), source=view.source))
    except DefinitionError:
        return False


def _refuse_other_events(view: View, was: Source, time: datetime) -> None:
    """Raise DefinitionError if the source gives windows before the time other events than the live one."""
    gained = {field.key for field in event_fields(view.source.event) if not field.required}
    for each in differences(source_meaning(was), source_meaning(view.source)):
        optional = each.how == "added" and each.path[:-1] == _FIELDS and each.path[-1] in gained
        if each.how != "rewritten" and not optional:
            raise DefinitionError(
                f"view {view.name!r}: its source {view.source.name!r} has changed ({each.words}), so windows before "
                f"{time.isoformat()} would change too; apply it to the whole history, without --from"
            )
