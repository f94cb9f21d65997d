"""`tandem history`: what was live, since when, and why."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.call import Call, Output
from cli.listing import listing
from ledger import diffs, publications, releases
from ledger.diffs import ReleaseDiff
from ledger.publications import Publication
from ledger.releases import Release
from ledger.tables import Tables


def run(
    call: Call,
    *,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N.")] = None,
) -> Output:
    """List the publications, the newest first: who, what, when and why, the cut, the code, what a promotion changed."""
    tables = Tables(call.settings().state)
    every = list(reversed(publications.history(tables)))
    stored = {release.number: release for release in releases.every(tables)}
    shown = [
        _document(each, stored[each.release], diffs.of_release(tables, each.release) if each.kind == "promote" else None)
        for each in every[:limit]
    ]
    return Output(
        {"publications": shown}, listing([_row(one) for one in shown], total=len(every)) if shown else "nothing is published yet"
    )


def _document(one: Publication, release: Release, diff: ReleaseDiff | None) -> dict[str, Any]:
    return {
        "publication": one.number,
        "parent": one.parent,
        "kind": one.kind,
        "at": one.at.isoformat().replace("+00:00", "Z"),
        "by": one.by,
        "why": one.why,
        "release": one.release,
        "revision": release.revision,
        "cuts": {source: cut.to_json() for source, cut in one.cuts.items()},
        "views": {name: [part.version for part in view.parts] for name, view in one.views.items()},
        "gaps": list(one.gaps),
        "diff": None if diff is None else {name: _summary(view) for name, view in diff.views.items()},
    }


def _summary(view: Mapping[str, Any]) -> dict[str, Any]:
    return {name: view[name] for name in ("status", "matched", "changed", "only_old", "only_new") if name in view}


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    """A publication narrow enough for a screen."""
    diff = document["diff"] or {}
    changed = [f"{name}: {view['changed']} of {view['matched']}" for name, view in diff.items() if view["status"] == "changed"]
    return {
        "publication": document["publication"],
        "kind": document["kind"],
        "at": document["at"][:19] + "Z",
        "by": document["by"],
        "release": document["release"],
        "revision": document["revision"],
        "cut": sum(offset for cut in document["cuts"].values() for topic in cut.values() for offset in topic.values()),
        "why": "; ".join(filter(None, [document["why"], *(f"in spite of {gap}" for gap in document["gaps"]), *changed])),
    }
