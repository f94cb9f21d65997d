"""Publications, releases and audits as documents: what was live, since when, by whom and why; what stands beside it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.audits import Audit
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Release, Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.views.instant import utc_text
from tandem.views.project.earlier_files import earlier_files


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
        "views": {name: [part.version for part in view.log_parts] for name, view in one.views.items()},
        "gaps": list(one.gaps),
        **({"from": times} if (times := _times(release)) else {}),
        "diff": None if changed is None else {name: _summary(view) for name, view in changed.items()},
    }


def _times(release: Release) -> dict[str, list[str]]:
    """By view with earlier definitions, the times from which later ones count, as they were asked for."""
    return {name: [utc_text(until) for _, until in each] for name, each in earlier_files(release.files).views.items()}


def _summary(view: Mapping[str, Any]) -> dict[str, Any]:
    return {name: view[name] for name in ("status", "matched", "changed", "only_old", "only_new") if name in view}


Stage = Literal["being built", "ready", "was live", "failed"]


@dataclass(frozen=True)
class StandingRelease:
    """A release that is not live. `lag` is by source how many offsets its realtime views are behind the live ones."""

    release: int
    stage: Stage
    why: str | None = None
    lag: Mapping[str, int] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        return asdict(self)


def standing_releases(tables: Tables, live: Publication, *, days: int, now: datetime) -> Iterator[StandingRelease]:
    """The releases beside that of the live publication, kept up to date for this many days after they were live. Raises
    Unreadable.
    """
    newest = {one.state.release: one for one in StandingReleases(tables).records()}
    published = {each.release for each in Publications(tables).history()}
    ready = promotion.ready(StandingReleases(tables), days=days, at=now)
    for state in Followed(StandingReleases(tables), days).states(now)[1:]:
        stage: Stage = "was live" if state.release in published else "ready" if state.release in ready else "being built"
        yield StandingRelease(state.release, stage, lag=promotion.lags(tables, state, live))
    for number, one in sorted(newest.items()):
        if one.stage == "failed" and now - one.state.at < timedelta(days=days):
            yield StandingRelease(number, "failed", one.state.why)


def document_of(audit: Audit) -> dict[str, Any]:
    """An audit as JSON; figures are null if nothing was compared, and `obstacle` says why, or `expectation` what was checked."""
    figures, expectation = audit.figures, audit.expectation
    return {
        "at": utc_text(audit.at),
        "version": audit.version,
        "served": audit.served,
        "release": audit.release,
        "view": audit.view,
        "measure": audit.measure or None,
        "start": audit.start.to_json(),
        "end": audit.end.to_json(),
        "obstacle": audit.obstacle,
        "cause": figures and figures.cause,
        "figures": figures
        and {
            "rows": figures.rows,
            "unequal": figures.unequal,
            "differ": figures.differ,
            "share": figures.differ / figures.rows if figures.rows else 0.0,
            "largest": figures.largest,
            "mean": figures.mean,
            "smape": figures.smape,
            "tolerance": figures.tolerance,
        },
        "examples": [dict(example) for example in figures.examples] if figures else [],
        "expectation": expectation
        and {
            "condition": expectation.condition,
            "severity": expectation.severity,
            "rows": expectation.rows,
            "unmet": expectation.unmet,
            "worst": [dict(row) for row in expectation.worst],
        },
    }


def expectation_lines(audits: Iterable[Audit]) -> Iterator[str]:
    """What views expect of their rows, and how many do not meet it, for a person."""
    for audit in audits:
        if audit.expectation is not None:
            yield f"{audit.view}: {audit.expectation.sentence} ({audit.expectation.severity})"
