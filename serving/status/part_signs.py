"""Reading the signs of each part: small files in the state folder, and what the kernel reports of a process id."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from tandem.infra.process import background, pulse
from tandem.infra.process.background import Process
from tandem.infra.settings import Settings
from tandem.infra.supervision import record as supervision
from tandem.infra.supervision.record import PartRecord, Supervision
from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.part_state import (
    BEHIND,
    BROKER,
    SPEED,
    Beat,
    Failure,
    FollowLoop,
    PartState,
    Signs,
    StuckBounds,
    state_of,
)


@dataclass
class BacklogAge:
    """Remembers, by source, an end of the log that no commit counts yet, and when it was first seen.

    Hot commits do not show whether a speed layer makes progress, so they do not count here.
    """

    _seen: dict[str, tuple[datetime, Position]] = field(default_factory=dict)

    def look(self, ends: Mapping[str, Position], snapshot: Snapshot, *, now: datetime) -> datetime | None:
        """Since when commits lack records of a source; None if they have all seen records. `ends` are those at `now`."""
        for source, end in ends.items():
            tail = snapshot.tails.get(source)
            counted = LOG_START if tail is None else tail.committed
            if source in self._seen and self._seen[source][1].at_or_below(counted):
                del self._seen[source]
            if source not in self._seen and not end.at_or_below(counted):
                self._seen[source] = (now, end)
        return min((since for since, _ in self._seen.values()), default=None)


def behind_since(snapshot: Snapshot, *, now: datetime, lately: timedelta) -> datetime | None:
    """Until when the log is counted, of a source that commits now and did not reach its end; None without such a source.

    A source whose newest commit is older than `lately` may be idle, so it is ignored.
    """
    newest = [tail.commits[-1] for tail in snapshot.tails.values() if tail.commits]
    recent = [one for one in newest if one.at is not None and now - one.at <= lately]
    return min((one.caught_up for one in recent if one.caught_up is not None), default=None)


class SourceCounting(NamedTuple):
    """What answers show of the speed layer: since when records have waited, and when events were last counted."""

    uncounted_since: datetime | None = None
    committed: datetime | None = None


_NOTHING: Final = SourceCounting()


def part_states(
    settings: Settings, *, now: datetime, snapshot: Snapshot | None = None, uncounted_since: datetime | None = None
) -> tuple[PartState, ...]:
    """The state of each part of a project at the time `now`: broker, speed layer, and the other parts that `up` started.

    `snapshot` is what answers count, if the caller has one. `uncounted_since` is since when the reader has known of records that
    are not counted, if it follows that.
    """
    bounds = StuckBounds(timedelta(seconds=settings.speed.stuck_s), timedelta(seconds=settings.speed.ready_s))
    behind = None if snapshot is None else behind_since(snapshot, now=now, lately=BEHIND)
    counting = SourceCounting(min(filter(None, (uncounted_since, behind)), default=None), _committed(snapshot))
    return tuple(state_of(one, now=now, bounds=bounds) for one in _all(settings, now, counting))


def _committed(snapshot: Snapshot | None) -> datetime | None:
    """When events were last counted."""
    tails = () if snapshot is None else snapshot.tails.values()
    return max((tail.commits[-1].at for tail in tails if tail.commits and tail.commits[-1].at), default=None)


def _all(settings: Settings, now: datetime, counting: SourceCounting) -> list[Signs]:
    state, own = settings.folder, () if settings.kafka.bootstrap else (BROKER,)
    supervisor = supervision.read(state)
    # The last report of an ended supervisor is void; a killed supervisor leaves the records of the parts that it had started.
    living = supervisor if supervisor is not None and supervisor.lives else None
    supervised = [part.name for part in living.parts] if living is not None else []
    return [
        signs(state, name, now=now, supervisor=living, counting=counting if name == SPEED else _NOTHING)
        for name in dict.fromkeys((*own, SPEED, *supervised, *background.names(state)))
    ]


def signs(
    state: Path,
    part: str,
    *,
    now: datetime,
    supervisor: Supervision | None = None,
    counting: SourceCounting = _NOTHING,
) -> Signs:
    """The signs of one part in the state folder, the kernel, and a living supervisor's report."""
    supervised = None if supervisor is None else supervisor.part(part)
    known, written = background.recorded(state, part), pulse.read(state, part)
    # A part that was started by hand has no record, or that of an earlier process.
    own = written is not None and (known is None or written.pid == known.pid or written.lives)
    process = Process(part, written.pid, written.began, "") if written is not None and own else known
    alive = None if process is None else background.alive(process)
    return Signs(
        part,
        recorded=known is not None,
        alive=alive,
        stopped=bool(alive) and process is not None and background.stopped(process),
        failure=None if supervised is None else _failure(supervised),
        answered=None if supervisor is None else _answered(supervisor, part, now=now),
        beat=_beat(state, part, written, now=now) if written is not None and own else None,
        last=None if known is None else _written(Path(known.log)),
        uncounted_since=counting.uncounted_since,
        committed=counting.committed,
    )


def _beat(state: Path, part: str, written: pulse.Pulse, *, now: datetime) -> Beat:
    """A pulse in times of day. A pulse of another machine, whose monotonic clock differs, is dated by its file."""
    here = background.same_boot(written.began)
    newest = max([written.at, *(loop.moved for loop in written.loops)])
    clock, at = (time.monotonic(), now) if here else (newest, _written(pulse.file(state, part)) or now)

    def time_of(stamp: float) -> datetime:
        return at - timedelta(seconds=clock - stamp)

    loops = tuple(
        FollowLoop(loop.source, time_of(loop.moved), None if loop.looked is None else time_of(loop.looked), loop.waits)
        for loop in written.loops
        if loop.release == written.live
    )
    return Beat(time_of(written.at), loops)


def _answered(supervisor: Supervision, part: str, *, now: datetime) -> datetime | None:
    """When the supervisor's loop last ran; for a running part, when the part last answered, as the loop knew then.

    A supervisor that hangs polls none of its parts, so their silence does not make them red.
    """
    if part == supervision.NAME:
        return now - timedelta(seconds=time.monotonic() - supervisor.at)
    known = supervisor.part(part)
    if known is None or known.state != "running" or known.looked is None:
        return None
    return now - timedelta(seconds=supervisor.at - known.looked)


def _failure(part: PartRecord) -> Failure | None:
    """Why a part does not run, or did not until it was restarted; None of a running part."""
    if part.failed is None or part.state == "running":
        return None
    return Failure(datetime.fromisoformat(part.failed), part.why, part.fix, over=part.state == "given up")


def _written(path: Path) -> datetime | None:
    """When a file was last written to."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None
