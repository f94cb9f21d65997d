"""Records in the log that answers do not count yet: reported on stderr with an answer, or waited for."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from datetime import datetime
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tandem.cli.command.call import UNHEALTHY, Call, Output
from tandem.infra import clock
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import uncounted, until_counted
from tandem.serving.status.part_signs import part_states
from tandem.serving.status.part_state import NEEDED
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.source.source import Source

if TYPE_CHECKING:
    from tandem.serving.status.sources import LogEnd

PATIENCE_S = 1.0
"""Seconds that a command waits, after its answer, for the broker to report the log's end."""

Wait = Annotated[bool, typer.Option("--wait", help="Wait until the records are counted; exit code 3 if that takes too long.")]
Within = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Maximum time of --wait.")]
WITHIN_S = 60.0


class LogAsked:
    """The ends of sources' logs, polled in a separate thread, so that a hanging broker does not delay an answer."""

    def __init__(self, settings: Settings, sources: Iterable[Source]) -> None:
        self._found: Future[dict[str, LogEnd]] = Future()
        Thread(target=self._ask, args=(settings, list(sources)), name="log-ends", daemon=True).start()

    def ends(self, *, seconds: float = PATIENCE_S) -> "dict[str, LogEnd]":
        """The end of the log by source; waits at most this many seconds, and leaves out sources that are unknown by then."""
        wait([self._found], timeout=seconds)
        found = self._found.result() if self._found.done() else {}
        return {source: end for source, end in found.items() if end.position is not None}

    def _ask(self, settings: Settings, sources: list[Source]) -> None:
        try:
            from tandem.serving.status.sources import log_ends  # noqa: PLC0415 - Kafka's client loads while the answer is computed

            self._found.set_result(log_ends(settings, sources))
        except Exception:  # noqa: BLE001 - whatever the client raises, the answer is given without
            self._found.set_result({})


def warning(settings: Settings, snapshot: Snapshot, ends: "Mapping[str, LogEnd]", *, now: datetime) -> str | None:
    """A note for an answer: how many records of these logs it does not count yet, and which part is dead or stuck.

    Also what waits behind transactions that have been open for longer than usual: the logs' ends do not count it.
    """
    left = uncounted(snapshot, {source: end.position for source, end in ends.items() if end.position is not None})
    waiting = [f"up to {counted(left, 'record')} {'waits' if left == 1 else 'wait'} to be counted"] if left else []
    blocked = {each.place: each for end in ends.values() for each in end.blocked}  # sources may share a topic
    waiting += [warned for each in blocked.values() if (warned := each.warning(now)) is not None]
    return "; ".join([*waiting, *_standing_still(settings)]) or None


class NotCountedInTime(NamedTuple):
    """The number of records that were not counted in time, and the sentence about it."""

    records: int
    sentence: str


def wait_until_counted(
    settings: Settings,
    wanted: Mapping[str, Position],
    *,
    seconds: float,
    of: int | None = None,
    asked: IfPromoted | None = None,
) -> NotCountedInTime | None:
    """Return once answers count these positions, of `of` records if that is known; Late if they do not in time.

    With `asked` these are the answers of that release.
    """
    left = until_counted(Tables.of(settings), wanted, seconds=seconds, asked=asked)
    if not left:
        return None
    # There may be more records below a position than were sent: those of others, and before the first answer the whole log.
    left = left if of is None else min(left, of)
    number = counted(left, "record") if of is None else f"{left} of {counted(of, 'record')}"
    said = f"{number} {'is' if left == 1 else 'are'} not counted after {seconds:g} s"
    return NotCountedInTime(left, "; ".join([said, *_standing_still(settings)]))


def counted_output(call: Call, document: Mapping[str, Any], shown: str, late: NotCountedInTime | None) -> Output:
    """The output of a command that has sent records and waited for them."""
    if late is None:
        return Output({**document, "uncounted": 0}, f"{shown}, and counted")
    call.say(f"tandem: {late.sentence}")
    return Output({**document, "uncounted": late.records}, shown, UNHEALTHY)


def ends_now(settings: Settings, source: Source) -> Mapping[str, Position]:
    """The current end of a source's log. Raises TandemError if the broker does not report it."""
    from tandem.serving.status.sources import log_ends  # noqa: PLC0415 - only --wait waits for Kafka's client

    end = log_ends(settings, [source])[source.name]
    if end.position is None:
        raise TandemError(f"--wait cannot read the end of the log: {end.problem}", code="broker-unavailable")
    return {source.name: end.position}


def _standing_still(settings: Settings) -> list[str]:
    states = part_states(settings, now=clock.now())
    return [one.sentence for one in states if one.red and one.part in NEEDED]
