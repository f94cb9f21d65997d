"""`tandem plan`: how the definitions in the project's folder differ from the published ones, and the work to apply them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tandem.batch.recompute.estimate import RAW, Expected, duration, expected, size
from tandem.cli.command.call import Call, Output
from tandem.cli.command.drift import since_published
from tandem.cli.command.options import AcceptGap, AcceptShorterHistory
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log import archive_runs
from tandem.ledger.publish import publications, releases
from tandem.ledger.publish.completeness import accepted_gaps, shorter_histories
from tandem.ledger.publish.publications import Publication
from tandem.views.counted import counted
from tandem.views.fingerprint.definition_diff import Change, Changes, SourceChanges, ViewChanges
from tandem.views.fingerprint.schema_evolution import refuse_breaks
from tandem.views.project.project import Project, load_files

CHANGES: Final = 3
"""The exit code if there are differences."""

_MARKS: Final = {"unchanged": " ", "added": "+", "removed": "-", "changed": "~"}


def run(
    call: Call,
    *,
    accept_gap: AcceptGap = None,
    accept_shorter_history: AcceptShorterHistory = False,
) -> Output:
    """Compare the definitions in the project's folder with the published ones, and explain each change.

    Each change has one of these kinds:

    * `none`: texts, units, formatting or labels; numbers stay the same
    * `additive`: a new view or measure
    * `breaking`: a number gets another meaning, or is removed
    * `source`: records decode into other events

    The command writes and computes nothing. Its exit code is:

    * 0: the definitions are the same
    * 3: they differ
    * 1: they could not be compared or could not be applied: a source would not read what is published of it, or the log is not
      complete enough to rebuild views from it
    """
    tables, wanted = Tables.of(call.settings()), call.definitions()
    live = publications.latest(tables)
    changes = since_published(tables, live, wanted)
    if live is not None and changes.different:
        refuse_breaks(load_files(releases.load(tables, live.release).files), wanted)
        accepted_gaps(tables, live, wanted.sources, accept_gap or ())
        shorter_histories(tables, live, _computed(wanted, changes), accepted=accept_shorter_history)
    document = _document(call, live, wanted, changes)
    return Output(document, "\n".join(_lines(document)), CHANGES if changes.different else 0)


def _document(call: Call, live: Publication | None, wanted: Project, changes: Changes) -> dict[str, Any]:
    ahead = dict(_ahead(call, live, wanted, changes))
    return {
        "project": str(call.project),
        "publication": live.number if live else None,
        "release": live.release if live else None,
        "different": changes.different,
        "nothing_to_compute": live is not None and not _computes(changes),
        "sources": {source.name: _source(source) for source in changes.sources},
        "views": {view.name: _view(view, wanted, changes) for view in changes.views},
        "estimates": {source: work.to_json() for source, work in ahead.items()},
        "files": list(changes.files),
    }


def _computes(changes: Changes) -> bool:
    """Whether any events table or batch view has to be built."""
    return any(source.rebuilt for source in changes.sources) or any(view.computed_from != "nothing" for view in changes.views)


def _ahead(call: Call, live: Publication | None, wanted: Project, changes: Changes) -> Iterator[tuple[str, Expected]]:
    """The work for each source that has something to compute, by the records that are archived now."""
    if live is None:
        return
    tables = Tables.of(call.settings())
    release = releases.load(tables, live.release)
    rebuilt = {source.name for source in changes.sources if source.rebuilt}
    for name, views in _computed(wanted, changes).items():
        if name in release.sources:
            raw, decoder = name in rebuilt, release.sources[name]
            end = archive_runs.archived(tables, name) if raw else archive_runs.end(tables, name, decoder)
            if end.offsets:
                yield name, expected(tables, wanted.sources[name], decoder, kind=RAW if raw else "full", views=views, end=end)


def _computed(wanted: Project, changes: Changes) -> Counter[str]:
    """How many views must be computed, by source."""
    return Counter(wanted.views[view.name].source.name for view in changes.views if view.computed_from != "nothing")


def _source(source: SourceChanges) -> dict[str, Any]:
    again = "" if source.status == "added" else " again"
    work = f"build its events table{again}, from the archive" if source.rebuilt else None
    return {"status": source.status, "kind": source.kind, "changes": _told(source.changes), "work": work}


def _view(view: ViewChanges, wanted: Project, changes: Changes) -> dict[str, Any]:
    return {
        "status": view.status,
        "kind": view.kind,
        "changes": _told(view.changes),
        "added_measures": list(view.added_measures),
        "unread_fields": list(view.unread_fields),
        "computed_from": view.computed_from,
        "work": None if view.computed_from == "nothing" else _work(view, wanted.views[view.name].source.name, changes),
    }


def _work(view: ViewChanges, source: str, changes: Changes) -> str:
    rebuilt = any(one.rebuilt for one in changes.sources if one.name == source)
    work = f"compute it from the events table of {source}{', once that is built' if rebuilt else ''}"
    if not view.unread_fields:
        return work
    fields = ", ".join(view.unread_fields)
    return (
        f"nothing, unless an archived record is rejected for {fields} (a value of another type, or repeated): the view does not "
        f"read them and keeps its batch view; otherwise {work}"
    )


def _told(changes: tuple[Change, ...]) -> list[dict[str, str]]:
    return [{"words": change.words, "kind": change.kind} for change in changes]


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for a person."""
    number = document["publication"]
    yield f"compared with release {document['release']} of publication {number}" if number else "nothing is published yet"
    for what in ("source", "view"):
        for name, one in document[f"{what}s"].items():
            kind = f", {one['kind']}" if one["status"] == "changed" else ""
            yield f"{_MARKS[one['status']]} {what} {name}: {one['status']}{kind}"
            if one["status"] in ("changed", "unchanged") or one["kind"] == "none":
                yield from (f"      {change['kind']}: {change['words']}" for change in one["changes"])
            if one["work"]:
                yield f"      to do: {one['work']}"
    for name, one in document["estimates"].items():
        about = "no estimate yet" if one["seconds"] is None else f"estimated {duration(one['seconds'])}"
        yield f"  source {name}: about {counted(one['rows'], 'row')} to read, {size(one['bytes'])}; {about}"
    if document["nothing_to_compute"] and (document["different"] or document["files"]):
        yield "nothing to compute: every view is equal to a published view and keeps its batch view"
    if document["different"]:
        yield "`tandem apply` builds them beside the live release, `tandem promote` makes them live"
    elif document["files"]:
        yield f"only the text of {', '.join(document['files'])} differs"
    else:
        yield "nothing differs"
