"""Promote a ready release, roll back, resume publishing, retire a release. Each adds one record.

TandemError
└── NotReady     the release is not ready, or its batch views or realtime rows are gone
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position, distance
from tandem.ledger.publish.publications import Kind, Publication, retained, whole
from tandem.ledger.publish.standing import Followed, StandingReleases, StandingRow
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.tiling import chain
from tandem.views.errors import TandemError


class NotReady(TandemError, code="release-not-ready"):
    """The release is not ready, or its batch views or realtime rows are gone; nothing was published."""


def lags(tables: Tables, state: Publication, live: Publication) -> dict[str, int]:
    """How many offsets the realtime views of a state's release are behind the live ones, by source that both have."""
    return {
        source: distance(_reached(tables, state, source), _reached(tables, live, source))
        for source in state.cuts
        if source in live.cuts
    }


def ready(standing: StandingReleases, *, days: float, at: datetime) -> dict[int, Publication]:
    """The releases that could go live now, by number: built and kept up to date (`days`: see Followed). Raises Unreadable."""
    return {state.release: state for state in Followed(standing, days).ready(at)}


def promote(
    standing: StandingReleases, release: int | None, *, days: float, max_lag: int, by: str, at: datetime, why: str = ""
) -> Publication:
    """Make a ready release live, all of its views at once; without a number, the newest ready one after the live release.

    Readers switch as soon as its realtime views have reached their position. Without a `why`, the reason is that of `apply`, if
    the release was never live. Raises NotReady if it is not ready, or its realtime views are more than `max_lag` offsets of a
    source behind the live ones, and NotPublishable.
    """

    def following(live: Publication | None) -> Publication:
        state = chosen(standing, release, days=days, at=at)
        if live is None:
            raise NotReady("nothing is published yet")
        for source, offsets in lags(standing.tables, state, live).items():
            if offsets > max_lag:
                raise NotReady(
                    f"the realtime views of release {state.release} are {offsets} offsets of source {source!r} behind the live "
                    f"ones, more than {max_lag}; wait for the speed layer, or see `tandem status`"
                )
        return replace(_held(standing, state, "promote", by=by, at=at), why=why or _reason_of_apply(standing, state.release))

    return _published(standing, following)


def chosen(standing: StandingReleases, release: int | None, *, days: float, at: datetime) -> Publication:
    """The state of a ready release; without a number, of the newest after the live release. Raises NotReady with the reason.

    An earlier release is promoted by its number only: a promotion whose answer was lost, typed again, must not undo itself.
    """
    live, found = standing.publications.latest(), ready(standing, days=days, at=at)
    after = 0 if live is None else live.release
    number = max((one for one in found if one > after), default=None) if release is None else release
    if number is not None and number in found:
        return found[number]
    if number is None and found:
        raise NotReady(
            f"no release after the live release {after} is ready; `tandem apply` builds one; ready are earlier ones: "
            f"{', '.join(map(str, sorted(found)))}; name one to promote it, or roll back"
        )
    if number is None:
        raise NotReady("no release is ready; `tandem apply` builds a release from the definitions in the project's folder")
    if live is not None and live.release == number:
        raise NotReady(f"release {number} is live already")
    others = f"; ready: {', '.join(map(str, sorted(found))) or 'none'}"
    if standing.state_of(number) is None:
        raise NotReady(f"release {number} was neither live nor applied{others}")
    one = standing.newest(number)
    stage = "not kept up to date" if one is None else "being built" if one.stage == "applied" else one.stage
    why = f" ({one.state.why})" if one is not None and one.over and one.state.why else ""
    raise NotReady(f"release {number} is {stage}{why}{others}")


def rollback(
    standing: StandingReleases,
    number: int | None,
    *,
    release: int | None = None,
    days: float,
    keep: int,
    since: datetime,
    by: str,
    at: datetime,
    why: str = "",
) -> Publication:
    """Make an earlier publication live again: by its number, or the newest one of a release.

    Without both it undoes the newest change of the release, however many recomputes came after it; where no other release was
    live, it undoes the live publication. A publication of the live release comes back as it was; of another release, the newest
    state of that release goes live. Recomputes publish nothing until `resume` or a promotion.

    Raises NotReady if the publication is no longer retained (`keep`, `since`: see publications.retained) or its release no longer
    kept up to date (`days`: see Followed), and NotPublishable if answers would go back in time.
    """

    def following(live: Publication | None) -> Publication:
        every = standing.publications.history()
        if live is None:
            raise NotReady("nothing is published yet")
        back = _earlier(every, live, number, release)
        erasure = standing.erasures.first_publication()
        if erasure is not None and back.number < erasure.publication:
            raise NotReady(
                f"publication {back.number} counts records that erasure {erasure.name} has erased, and is retired; publications "
                f"from {erasure.publication} on can be rolled back to, see `tandem history`"
            )
        # A publication that the policy does not retain may be deleted at any moment, though its files still exist.
        kept, wanted = back.release != live.release or back in retained(every, keep=keep, since=since), back.number
        if back.release != live.release:
            back = _held(standing, _kept_up(standing, back.release, days, at), "rollback", by=by, at=at)
        if not kept or not whole(standing.tables, [back]):
            raise NotReady(
                f"the batch views of publication {wanted} are no longer retained; see `[keep]` in docs/configuration.md"
            )
        return replace(back, kind="rollback", by=by, at=at, why=why)

    return _published(standing, following)


def publications_since(history: Sequence[Publication], back: Publication) -> list[Publication]:
    """The publications that a rollback undid, oldest first: those after the newest one of its state, or of its release."""
    before = [each for each in history if each.number < back.number]
    same = [
        each
        for each in before
        if each.release == back.release and (before[-1].release != back.release or _answers(each) == _answers(back))
    ]
    return [each for each in before if not same or each.number > same[-1].number]


def _answers(publication: Publication) -> tuple[object, object]:
    return publication.cuts, publication.views


def _earlier(every: Sequence[Publication], live: Publication, number: int | None, release: int | None) -> Publication:
    """The publication to go back to. Raises NotReady."""
    before = [each for each in every if each.number < live.number]
    if release == live.release:
        raise NotReady(f"release {release} is live already; `tandem rollback N` goes back to a publication, see `tandem history`")
    if release is not None:
        back = next((each for each in reversed(before) if each.release == release), None)
        if back is None:
            raise NotReady(f"release {release} was never live; see `tandem history`")
        return back
    if number is None and live.kind in ("rollback", "resume"):
        raise NotReady(f"publication {live.number} is a rollback; name the publication to roll back to, see `tandem history`")
    if number is None:
        back = next((each for each in reversed(before) if each.release != live.release), None)
        change = next((each for each in every if back is not None and each.number > back.number), live)
        if back is not None and change.kind == "rollback":
            raise NotReady(
                f"the newest change of the release, publication {change.number}, is a rollback; name the publication or the "
                "release to roll back to, see `tandem history`"
            )
        number = live.parent if back is None else back.number
    back = next((each for each in before if each.number == number), None)
    if back is None:
        raise NotReady(f"no publication {number} before the live publication {live.number}; see `tandem history`")
    return back


def resume(standing: StandingReleases, *, by: str, at: datetime, why: str = "") -> Publication:
    """Let recomputes publish again, from the live rollback on. Raises NotReady if the live publication is not a rollback."""

    def following(live: Publication | None) -> Publication:
        if live is None or live.kind != "rollback":
            raise NotReady("publishing is not paused: the live publication is not a rollback")
        return replace(live, kind="resume", by=by, at=at, why=why)

    return _published(standing, following)


def retire(standing: StandingReleases, release: int, *, by: str, at: datetime, why: str = "") -> StandingRow:
    """Retire a release: it is no longer updated, and `maintain` deletes what only it needs. Raises NotReady."""
    live, state = standing.publications.latest(), standing.state_of(release)
    if live is None or state is None:
        raise NotReady(f"release {release} was neither live nor applied; see `tandem history`")
    if live.release == release:
        raise NotReady(f"release {release} is live; promote another release or roll back before you retire it")
    newest = standing.newest(release)
    if newest is not None and newest.stage == "retired" and newest.state.parent >= _last_live(standing, release):
        raise NotReady(f"release {release} is already retired")
    return standing.record("retired", replace(state, by=by, at=at, why=why), after=state)


def _reason_of_apply(standing: StandingReleases, release: int) -> str:
    """The reason of the `apply` that built a release, or named it again, since it was live; empty if none gave a reason."""
    since = _last_live(standing, release)
    rows = [row for row in standing.records() if row.state.release == release and row.state.parent > since]
    reasons = (row.state.why for row in reversed(rows) if row.state.kind == "apply" and not row.over)
    return next(filter(None, reasons), "")


def _last_live(standing: StandingReleases, release: int) -> int:
    return max((each.number for each in standing.publications.history() if each.release == release), default=0)


def _kept_up(standing: StandingReleases, release: int, days: float, at: datetime) -> Publication:
    found = next((state for state in Followed(standing, days).states(at) if state.release == release), None)
    if found is None:
        raise NotReady(
            f"release {release} is no longer kept up to date, so its answers would go back in time; apply its definitions "
            "again, or name a publication of the live release to roll back to, see `tandem history`"
        )
    return found


def _held(standing: StandingReleases, state: Publication, kind: Kind, *, by: str, at: datetime) -> Publication:
    """Record the state again: from now on maintenance keeps what it needs, and a recompute that began with it is refused."""
    return standing.record("built", replace(state, kind=kind, by=by, at=at), after=state).state


def _reached(tables: Tables, state: Publication, source: str) -> Position:
    return chain(spans_of(tables, state.release, source), state.cut(source), across_bridges=True).end


def _published(standing: StandingReleases, following: Callable[[Publication | None], Publication]) -> Publication:
    published = standing.publications.publish(following)
    assert published is not None  # the candidate is never None
    return published
