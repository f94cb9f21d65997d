"""Build a project's definitions as a release beside the live one, until the release is ready to go live.

1. The new release begins at the live cut. Views with the same meaning share their batch states.
2. The other views are folded from the log below the cut.
3. The speed layer follows the log from the cut under the new definitions.
4. The answers of both releases below the cut are compared, key by key.

Answers do not change meanwhile. If a run is killed at any point, the next run continues from what is recorded, or starts over.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.release.build_release import Terms, build_release
from tandem.batch.release.change import Change, Status
from tandem.batch.release.diff import diffs
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.publish import adoption, first_publication, promotion, publications, releases, standing
from tandem.ledger.publish import diffs as kept_diffs
from tandem.ledger.publish.diffs import ReleaseDiff
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.views.errors import TandemError
from tandem.views.fingerprint.schema_evolution import refuse_breaks
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.verify.release_diff import Diff, to_json

_EVERY_S: Final = 0.2
_STILL_S: Final = 60.0
"""A speed layer that is alive commits several times a second, once it has its Spark session."""


class CannotApply(TandemError):
    """The definitions cannot be built beside the live ones; the error states what exists."""


@dataclass(frozen=True)
class Applied:
    """The ready release, the outcome of every view, and how its answers differ; None if there is nothing to apply.

    `written` is the number of bytes of view data that this run wrote.
    """

    live: Publication
    release: int | None = None
    status: Mapping[str, Status] = field(default_factory=dict, hash=False)
    diff: ReleaseDiff | None = None
    lags: Mapping[str, int] = field(default_factory=dict, hash=False)
    written: int = 0


def run(
    batch: BatchRun, working_tree: Callable[[], Project], terms: Terms, *, sleep: Callable[[float], None] = time.sleep
) -> Applied:
    """Build the working tree as a release and make it ready. If nothing is published yet, the working tree is published.

    Waits for another run that holds the lock, and until the release's realtime views have caught up. Raises TandemError if

    * a source could not read its published records,
    * a gap or a shorter history is not accepted,
    * the release fails.
    """
    tables = batch.tables
    wanted = working_tree()
    first_publication.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    batch.hold("views")
    publications.claim(tables)
    standing.claim(tables)
    live = first_publication.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    before = releases.load(tables, live.release)
    if adoption.defines(before, wanted):
        return Applied(live)
    refuse_breaks(project.load_files(before.files), wanted)
    release = adoption.adopt(tables, wanted, by=batch.by, at=batch.now(), over=_not_usable(batch, live.release))
    _retire_unpromoted(batch, release)
    change = Change(live, before, release)
    diff, written = kept_diffs.of_release(tables, release.number), 0
    if diff is None:
        built = build_release(batch, change, terms)
        diff, written = _compare(batch, change, built.state), built.written
    lags = _caught_up(batch, release.number, terms.max_lag, sleep)
    return Applied(live, release.number, change.status, diff, lags, written)


def _not_usable(batch: BatchRun, live: int) -> set[int]:
    """The releases that are not ready and compared, or are earlier than the live one: equal definitions become a new release.

    So what `apply` makes ready is always after the live release, and `promote` without a number goes forward only.
    """
    tables, days = batch.tables, batch.settings.keep.release_days
    ready = promotion.ready(tables, days=days, at=batch.now())
    usable = {number for number in ready if kept_diffs.of_release(tables, number) is not None}
    return {one.number for one in releases.every(tables)} - {number for number in usable if number > live}


def _retire_unpromoted(batch: BatchRun, wanted: Release) -> None:
    """Retire the releases that were applied and never went live: the new release replaces them."""
    tables = batch.tables
    published = {each.release for each in publications.history(tables)}
    for number in {one.state.release for one in standing.records(tables)} - published - {wanted.number}:
        one = standing.newest(tables, number)
        if one is not None and not one.over:
            why = f"release {wanted.number} replaces it"
            standing.record(tables, "retired", replace(one.state, by=batch.by, at=batch.now(), why=why))


def _compare(batch: BatchRun, change: Change, state: Publication) -> ReleaseDiff:
    """Compare the answers of both releases below the cut, and record the differences."""
    status = change.status
    changed = [name for name, what in status.items() if what == "changed"]
    found = diffs(batch, (change.before, change.live), (change.after, state), changed) if changed else {}
    views = {
        name: {"status": what, **(to_json(found.get(name, Diff())) if what == "changed" else {})} for name, what in status.items()
    }
    diff = ReleaseDiff(batch.now(), change.after.number, change.before.number, views)
    kept_diffs.record(batch.tables, diff)
    return diff


def _caught_up(batch: BatchRun, number: int, max_lag: int, sleep: Callable[[float], None]) -> dict[str, int]:
    """Wait until the realtime views are near the live ones. Raises CannotApply if they do not advance, or have failed."""
    tables = batch.tables
    least: dict[str, int] | None = None
    still = 0.0
    while True:
        newest, live = standing.newest(tables, number), publications.latest(tables)
        if newest is not None and newest.over:
            raise CannotApply(f"release {number} is {newest.stage}: {newest.state.why or 'by another command'}")
        if live is None or live.release == number:
            return {}
        state = standing.state_of(tables, number)
        lags = {} if state is None else promotion.lags(tables, state, live)
        if all(lag <= max_lag for lag in lags.values()):
            return lags
        if least is None:
            batch.say(f"release {number} is built; waiting for its realtime views to catch up ({_lags_text(lags)})")
        still = 0.0 if least is None or lags != least else still + _EVERY_S
        least = lags
        if still > _STILL_S:
            raise CannotApply(
                f"release {number} is built, but its realtime views do not advance ({_lags_text(lags)}); start the speed layer "
                "with `tandem up`, then `tandem apply` continues from here"
            )
        sleep(_EVERY_S)


def _lags_text(lags: Mapping[str, int]) -> str:
    return ", ".join(f"{source}: {lag} offsets behind" for source, lag in lags.items())
