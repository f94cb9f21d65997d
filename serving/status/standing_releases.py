"""The releases beside the live one: those that are kept up to date, and those that failed recently."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.standing import Followed, StandingReleases

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
