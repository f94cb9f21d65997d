"""Where each sink stands: its target's token beside the newest snapshot, and whether a process runs it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tandem.ledger.log.positions import Position, distance
from tandem.ledger.publish.batch_parts import pair_numbers
from tandem.ledger.united_positions import unite
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.sink_report import SinkReport, reports
from tandem.views.counted import counted
from tandem.views.instant import utc_text
from tandem.views.source.united_source import names_of

SinkWork = Literal["running", "failing", "stopped"]
WORK: Final[tuple[SinkWork, ...]] = get_args(SinkWork)


@dataclass(frozen=True)
class SinkState:
    """Where one sink stands.

    Args:
        state: `running`, `failing` while a process tries again after an error, or `stopped` while no process runs it.
        lag: the number of offsets that answers count and the target's token does not; None if that is not known.
        lag_s: seconds since the target was last seen to be the view; 0 if it is now, None if it never was.
        position: up to where the token counts the log.
        at: the time of the newest step.
        steps: since its process began, as are `rows` written, `gone` rows, `comparisons` of all rows, and `errors`.
        error: the newest error, and when.
    """

    sink: str
    view: str
    state: SinkWork
    lag: int | None
    lag_s: float | None
    token: str | None
    position: Position | None
    at: datetime | None
    steps: int
    rows: int
    gone: int
    comparisons: int
    errors: int
    error: str | None
    failed: datetime | None

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        position = None if self.position is None else self.position.to_json()
        times = {name: None if at is None else utc_text(at) for name, at in (("at", self.at), ("failed", self.failed))}
        return {**vars(self), "position": position, **times, "problem": self.problem}

    @property
    def problem(self) -> str | None:
        """What a person has to know of it now."""
        if self.state == "stopped" and self.lag:
            return f"sink {self.sink} is stopped{self._behind}"
        if self.state == "failing":
            return f"sink {self.sink} fails{self._behind}, and is tried again: {self.error}"
        return None

    @property
    def _behind(self) -> str:
        return "" if not self.lag else f", and its target lacks {counted(self.lag, 'offset')}"


def lag(report: SinkReport, snapshot: Snapshot) -> int | None:
    """The number of offsets that commits count and a target's token does not; None if one of both is not known."""
    ends, names = {}, names_of(report.source)
    for source, name in zip(names, _views_with_states(report), strict=True):
        live, tail = snapshot.publication.views.get(name), snapshot.tails.get(source)
        if report.token is None or live is None or tail is None or tail.problem is not None:
            return None
        ends[source] = tail.of(live.fingerprint).committed
    assert report.token is not None
    return distance(Position.from_json(report.token.end), unite(ends) if len(names) > 1 else ends[names[0]])


def _views_with_states(report: SinkReport) -> list[str]:
    """The views that have the states of the sink's view: of several sources a part for each."""
    name, names = report.root or report.view, names_of(report.source)
    return [f"{name}__{source}" for source in names] if len(names) > 1 else [name]


def is_view(report: SinkReport, snapshot: Snapshot) -> bool:
    """Whether the target of a sink has the rows of its view at this snapshot."""
    token = report.token
    if token is None or lag(report, snapshot) != 0:
        return False
    of = [snapshot.publication.views[name] for name in _views_with_states(report)]
    if (token.release, token.version) != (snapshot.publication.release, pair_numbers([live.version for live in of])):
        return False
    # A rollup has a fingerprint of its own, which its release decides, and so has a view over several sources.
    return bool(report.root) or len(of) > 1 or token.fingerprint == of[0].fingerprint


def sink_states(state: Path, snapshot: Snapshot | None, *, now: datetime) -> tuple[SinkState, ...]:
    """The sinks that have run in this state folder, by name; without a snapshot their lag is not known."""
    return tuple(_states(state, snapshot, now))


def _states(state: Path, snapshot: Snapshot | None, now: datetime) -> Iterator[SinkState]:
    for report in reports(state):
        work: SinkWork = "stopped" if not report.lives else "failing" if report.failures else "running"
        equal = snapshot is not None and is_view(report, snapshot)
        silent = None if report.equal is None else max(0.0, (now - report.equal).total_seconds())
        yield SinkState(
            sink=report.sink,
            view=report.view,
            state=work,
            lag=None if snapshot is None else lag(report, snapshot),
            lag_s=0.0 if equal else silent if snapshot is not None else None,
            token=None if report.token is None else report.token.text,
            position=None if report.token is None else Position.from_json(report.token.end),
            at=report.at,
            steps=report.steps,
            rows=report.rows,
            gone=report.gone,
            comparisons=report.comparisons,
            errors=report.errors,
            error=report.error,
            failed=report.failed,
        )
