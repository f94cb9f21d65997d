"""What goes live, and what goes: promote a release that stands ready, roll back, resume, retire. Each is one record.

TandemError
└── NotReady     what is asked for does not stand, or cannot be reached any more
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ledger.delta.addresses import Tables
from ledger.log.positions import Position, distance
from ledger.publish import publications, standing
from ledger.publish.publications import Kind, Publication
from ledger.publish.standing import Followed, Record
from ledger.realtime.commit_files import spans_of
from ledger.realtime.tiling import chain
from views.errors import TandemError


class NotReady(TandemError):
    """What is asked for does not stand, or cannot be reached any more; nothing was published."""


def lags(tables: Tables, state: Publication, live: Publication) -> dict[str, int]:
    """By source that both have, how many offsets the realtime views of a state's release are behind those of the live one."""
    return {
        source: distance(_reached(tables, state, source), _reached(tables, live, source))
        for source in state.cuts
        if source in live.cuts
    }


def ready(tables: Tables, *, days: float, at: datetime) -> dict[int, Publication]:
    """The releases that could go live now, by number: they are built and kept up (`days`: see Followed). Raises Unreadable."""
    return {state.release: state for state in Followed(tables, days).ready(at)}


def promote(
    tables: Tables, release: int | None, *, days: float, max_lag: int, by: str, at: datetime, why: str = ""
) -> Publication:
    """Make a release that is ready live, all of its views at once; of none given, the newest.

    Readers follow as soon as it has reached where they stand. Raises NotReady if it is not ready, or its realtime views are more
    than `max_lag` offsets of a source behind the live ones; NotPublishable.
    """

    def following(live: Publication | None) -> Publication:
        state = chosen(tables, release, days=days, at=at)
        if live is None:
            raise NotReady("nothing is published yet")
        for source, offsets in lags(tables, state, live).items():
            if offsets > max_lag:
                raise NotReady(
                    f"the realtime views of release {state.release} are {offsets} offsets of source {source!r} behind the live "
                    f"ones, more than {max_lag}; wait for the speed layer, or see `tandem status`"
                )
        return replace(_held(tables, state, "promote", by=by, at=at), why=why)

    return _published(tables, following)


def chosen(tables: Tables, release: int | None, *, days: float, at: datetime) -> Publication:
    """The state of a release that is ready; of none given, of the newest. Raises NotReady with what stands in the way."""
    live, found = publications.latest(tables), ready(tables, days=days, at=at)
    number = max(found, default=None) if release is None else release
    if number is not None and number in found:
        return found[number]
    if number is None:
        raise NotReady("no release is ready; `tandem apply` builds a release from the definitions in the project's folder")
    if live is not None and live.release == number:
        raise NotReady(f"release {number} is live already")
    one = standing.newest(tables, number)
    stage = "not kept up to date" if one is None else "being built" if one.stage == "applied" else one.stage
    why = f" ({one.state.why})" if one is not None and one.state.why else ""
    raise NotReady(f"release {number} is {stage}{why}; ready: {', '.join(map(str, sorted(found))) or 'none'}")


def rollback(
    tables: Tables, number: int | None, *, days: float, keep: int, since: datetime, by: str, at: datetime, why: str = ""
) -> Publication:
    """Make an earlier publication live again: of its own release as it was, of another release as that stands now.

    None is the one before the live one. Recomputes publish nothing until `resume` or another promotion. Raises NotReady if the
    publication is no longer kept (`keep`, `since`: see publications.retained), or its release (`days`: see Followed);
    NotPublishable if answers would step back.
    """

    def following(live: Publication | None) -> Publication:
        every = publications.history(tables)
        if live is None:
            raise NotReady("nothing is published yet")
        if number is None and live.kind in ("rollback", "resume"):
            raise NotReady(f"publication {live.number} is a rollback; name the publication to roll back to, see `tandem history`")
        wanted = live.parent if number is None else number
        back = next((each for each in every if each.number == wanted and each.number < live.number), None)
        if back is None:
            raise NotReady(f"no publication {wanted} before the live publication {live.number}; see `tandem history`")
        # What the policy does not retain may be on its way out, though it is all there still.
        kept = back.release != live.release or back in publications.retained(every, keep=keep, since=since)
        if back.release != live.release:
            back = _held(tables, _standing(tables, back.release, days, at), "rollback", by=by, at=at)
        if not kept or not publications.whole(tables, [back]):
            raise NotReady(
                f"the batch views of publication {wanted} are no longer retained; see `[keep]` in docs/configuration.md"
            )
        return replace(back, kind="rollback", by=by, at=at, why=why)

    return _published(tables, following)


def resume(tables: Tables, *, by: str, at: datetime, why: str = "") -> Publication:
    """Let recomputes publish again what goes on from the rollback that is live. Raises NotReady if none is."""

    def following(live: Publication | None) -> Publication:
        if live is None or live.kind != "rollback":
            raise NotReady("publishing is not paused: the live publication is not a rollback")
        return replace(live, kind="resume", by=by, at=at, why=why)

    return _published(tables, following)


def retire(tables: Tables, release: int, *, by: str, at: datetime, why: str = "") -> Record:
    """Let a release go: it is no longer kept up, and `maintain` frees what it alone needs. Raises NotReady."""
    live, state = publications.latest(tables), standing.state_of(tables, release)
    if live is None or state is None:
        raise NotReady(f"release {release} was neither live nor applied; see `tandem history`")
    if live.release == release:
        raise NotReady(f"release {release} is live; promote another release or roll back before you retire it")
    newest = standing.newest(tables, release)
    if newest is not None and newest.stage == "retired" and newest.state.parent >= _last_live(tables, release):
        raise NotReady(f"release {release} is already retired")
    return standing.record(tables, "retired", replace(state, by=by, at=at, why=why), after=state)


def _last_live(tables: Tables, release: int) -> int:
    return max((each.number for each in publications.history(tables) if each.release == release), default=0)


def _standing(tables: Tables, release: int, days: float, at: datetime) -> Publication:
    found = next((state for state in Followed(tables, days).states(at) if state.release == release), None)
    if found is None:
        raise NotReady(
            f"release {release} is no longer kept up to date, so its answers would go back in time; apply its definitions again"
        )
    return found


def _held(tables: Tables, state: Publication, kind: Kind, *, by: str, at: datetime) -> Publication:
    """The state, said again: from here on upkeep leaves what it needs, and a recompute that had begun with it comes too late."""
    return standing.record(tables, "built", replace(state, kind=kind, by=by, at=at), after=state).state


def _reached(tables: Tables, state: Publication, source: str) -> Position:
    return chain(spans_of(tables, state.release, source), state.cut(source), across_bridges=True).end


def _published(tables: Tables, following: Callable[[Publication | None], Publication]) -> Publication:
    published = publications.publish(tables, following)
    assert published is not None  # another always follows
    return published
