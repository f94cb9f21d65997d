"""`tandem plan`: how the definitions in the project's folder differ from the published ones, and the work to apply them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tandem.batch.recompute.estimate import RAW, Expected, duration, expected, size
from tandem.batch.release.release_plan import ReleasePlan, Terms, plan_release
from tandem.cli.command.call import Call, Output
from tandem.cli.command.drift import since_published
from tandem.cli.command.options import AcceptGap, AcceptShorterHistory
from tandem.cli.records.readable_rejects import ReadableRejects, readable_rejects
from tandem.cli.release.start_option import From, start_of
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.composite.dated import starts
from tandem.views.counted import counted
from tandem.views.fingerprint.definition_diff import DefinitionChange, DefinitionChanges, SourceChanges, ViewChanges
from tandem.views.instant import utc_text

CHANGES: Final = 3
"""The exit code if there are differences."""

_MARKS: Final = {"unchanged": " ", "added": "+", "removed": "-", "changed": "~"}


def run(
    call: Call,
    *,
    from_: From = None,
    accept_gap: AcceptGap = None,
    accept_shorter_history: AcceptShorterHistory = False,
) -> Output:
    """Compare the definitions in the project's folder with the published ones, explain each change, and print what `apply` does.

    Each change has one of these kinds:

    * `none`: texts, units, formatting or labels; numbers stay the same
    * `additive`: a new view or measure
    * `breaking`: a number gets another meaning, or is removed
    * `source`: records decode into other events

    `--from T` plans that windows which begin before T keep the live definition.

    For a source that decodes differently, it decodes the newest 10000 rejects again, and prints how many become readable.

    The command writes and computes nothing. Its exit code is:

    * 0: the definitions are the same
    * 3: they differ
    * 1: they could not be compared or could not be applied: a source would not read what is published of it, or the log is not
      complete enough to rebuild views from it
    """
    settings, wanted = call.settings(), call.publishable()
    tables = Tables.of(settings)
    standing = StandingReleases(tables)
    live = standing.publications.latest()
    terms = Terms(tuple(accept_gap or ()), accept_shorter_history, start=start_of(from_))
    days, at = settings.keep.release_days, clock.now()
    plan = None if live is None else plan_release(standing, Releases(tables), live, wanted, terms, days=days, by="plan", at=at)
    changes = since_published(tables, live, wanted) if plan is None else plan.change.definitions
    document = _document(call, live, changes, plan)
    return Output(document, "\n".join(_lines(document)), CHANGES if changes.different else 0)


def _document(call: Call, live: Publication | None, changes: DefinitionChanges, plan: ReleasePlan | None) -> dict[str, Any]:
    return {
        "project": str(call.project),
        "publication": live.number if live else None,
        "release": live.release if live else None,
        "different": changes.different,
        "nothing_to_compute": live is not None and (plan is None or (not plan.undecoded and not plan.steps)),
        "sources": {source.name: _source(source, plan) for source in changes.sources},
        "views": {view.name: _view(view, plan) for view in changes.views},
        "apply": None if plan is None else steps(plan),
        "estimates": {} if plan is None else {name: work.to_json() for name, work in _ahead(call, plan)},
        "rejects": {name: each.to_json() for name, each in _readable(call, plan).items()},
        "files": list(changes.files),
    }


def _readable(call: Call, plan: ReleasePlan | None) -> Mapping[str, ReadableRejects]:
    """The rejects of each source with another decoder."""
    if plan is None:
        return {}
    change = plan.change
    return readable_rejects(Tables.of(call.settings()), change.before, change.new, change.after.sources)


def steps(plan: ReleasePlan) -> dict[str, Any]:
    """What `tandem apply` does, as a JSON object.

    `keeps` has the views that keep their batch views unless the named fields reject archived records. `folds` has, by source, the
    views to fold, each with the measures that are folded alone if they count the same events as the others; null for all of them.
    """
    return {
        "release": plan.change.after.number,
        "ready": plan.ready,
        "retires": list(plan.retired),
        "begins": {source: cut.to_json() for source, cut in plan.cuts.items()},
        "decodes": [source.name for source in plan.undecoded],
        "keeps": {view.name: list(view.fields) for view in plan.unread},
        "folds": {
            source: {
                name: list(step.gained[name].measures) if name in step.gained else None
                for step in plan.steps
                if step.source == source
                for name in step.views
            }
            for source in dict.fromkeys(step.source for step in plan.steps)
        },
        "compares": list(plan.compared),
    }


def _ahead(call: Call, plan: ReleasePlan) -> Iterator[tuple[str, Expected]]:
    """The work for each source that has something to compute."""
    tables, change = Tables.of(call.settings()), plan.change
    undecoded = {source.name for source in plan.undecoded}
    for step in plan.steps:
        name, raw = step.source, step.source in undecoded
        end = ArchiveLedger(tables, name).archived() if raw else step.cut
        assert end is not None  # the steps of a release end at the live cut
        source, decoder = change.new.sources[name], change.after.sources[name]
        ahead = expected(
            tables, source, decoder, kind=RAW if raw else step.kind, views=len(step.views), end=end, windows=step.windows
        )
        yield name if step.windows is None else f"{name} from {utc_text(step.windows[0])} on", ahead


def _source(source: SourceChanges, plan: ReleasePlan | None) -> dict[str, Any]:
    decoded = plan is not None and any(each.name == source.name for each in plan.undecoded)
    work = "build its events table again, from the archive" if decoded else None
    return {"status": source.status, "kind": source.kind, "changes": _told(source.changes), "work": work}


def _view(view: ViewChanges, plan: ReleasePlan | None) -> dict[str, Any]:
    return {
        "status": view.status,
        "kind": view.kind,
        "changes": _told(view.changes),
        "work": None if plan is None else _work(view.name, plan),
        **({"from": begins} if (begins := [] if plan is None else _starts(plan, view.name)) else {}),
    }


def _starts(plan: ReleasePlan, view: str) -> list[str]:
    return starts(plan.change.new.views[view]) if view in plan.change.new.views else []


def _work(view: str, plan: ReleasePlan) -> str | None:
    """What has to be computed for a view; None if nothing has to be."""
    step = next((step for step in plan.steps if view in step.views), None)
    if step is None:
        return None
    decoded = any(source.name == step.source for source in plan.undecoded)
    table = f"from the events table of {step.source}{', once that is built' if decoded else ''}"
    if step.windows is not None:
        return f"compute its windows from {utc_text(step.windows[0])} on {table}; earlier ones keep their states"
    if view in step.gained:
        measures = ", ".join(step.gained[view].measures)
        return f"compute only its new measures ({measures}) {table}; all measures, if the new ones count other events"
    unread = next((each for each in plan.unread if each.name == view), None)
    if unread is None:
        return f"compute it {table}"
    fields = ", ".join(unread.fields)
    return (
        f"nothing, unless an archived record is rejected for {fields} (a value of another type, or repeated): the view does not "
        f"read them and keeps its batch view; otherwise compute it {table}"
    )


def _told(changes: tuple[DefinitionChange, ...]) -> list[dict[str, str]]:
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
            if one.get("from"):
                yield f"      from {', then from '.join(one['from'])} on: a new definition; earlier windows keep theirs"
            if one["work"]:
                yield f"      to do: {one['work']}"
    for name, one in document["estimates"].items():
        about = "no estimate yet" if one["seconds"] is None else f"estimated {duration(one['seconds'])}"
        yield f"  source {name}: about {counted(one['rows'], 'row')} to read, {size(one['bytes'])}; {about}"
    yield from (f"  {ReadableRejects(**each).sentence(name)}" for name, each in document["rejects"].items())
    planned = document["apply"]
    if planned is not None and planned["retires"]:
        yield f"release {planned['release']} replaces {', '.join(map(str, planned['retires']))}, which never went live"
    if planned is not None and planned["ready"]:
        yield f"nothing to build: release {planned['release']} has these definitions and is ready"
    elif planned is not None and document["nothing_to_compute"]:
        yield "nothing to compute: every view keeps the batch view of an equal published view, or has no events below the cut"
    if number is None:
        yield "`tandem apply` publishes them; `tandem recompute` then builds their batch views"
    elif document["different"]:
        yield "`tandem apply` builds them beside the live release, `tandem promote` makes them live"
    elif document["files"]:
        yield f"only the text of {', '.join(document['files'])} differs"
    else:
        yield "nothing differs"
