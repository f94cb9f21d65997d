"""The publications as documents: what was live, since when, by whom and why, and what a promotion changed."""

from collections.abc import Mapping
from typing import Any

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Release, Releases
from tandem.views.instant import utc_text


def documents(tables: Tables, limit: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The newest publications, the newest first, at most `limit` of them; and how many there are. Raises Unreadable."""
    every = Publications(tables).history()
    chosen = every[::-1][:limit]
    stored = {release.number: release for release in Releases(tables).every()}
    compared = ReleaseDiffs(tables).newest() if any(each.kind == "promote" for each in chosen) else {}
    return [_document(each, stored[each.release], compared.get(each.release)) for each in chosen], len(every)


def _document(one: Publication, release: Release, diff: ReleaseDiff | None) -> dict[str, Any]:
    changed = diff.views if diff is not None and one.kind == "promote" else None
    return {
        "publication": one.number,
        "parent": one.parent,
        "kind": one.kind,
        "at": utc_text(one.at),
        "by": one.by,
        "why": one.why,
        "release": one.release,
        "revision": release.revision,
        "cuts": {source: cut.to_json() for source, cut in one.cuts.items()},
        "views": {name: [part.version for part in view.parts] for name, view in one.views.items()},
        "gaps": list(one.gaps),
        "diff": None if changed is None else {name: _summary(view) for name, view in changed.items()},
    }


def _summary(view: Mapping[str, Any]) -> dict[str, Any]:
    return {name: view[name] for name in ("status", "matched", "changed", "only_old", "only_new") if name in view}
