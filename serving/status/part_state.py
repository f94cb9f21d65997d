"""The state of each part of a project, decided in one place: a pure function of the signs and a clock.

| state         | red    | meaning                                                                            |
| ------------- | ------ | ---------------------------------------------------------------------------------- |
| `running`     | no     | its process lives, and its loop makes progress                                     |
| `behind`      | no     | its loop makes progress, and records have waited for some seconds                  |
| `starting`    | partly | its process lives and has not reached the log yet; red if it failed before         |
| `stuck`       | yes    | its process lives, or may live, and its loop makes no progress                     |
| `dead`        | yes    | its process has ended, and no command stopped it                                   |
| `given_up`    | yes    | it failed several times in a row, and is not restarted                             |
| `not_started` | no     | it was never started in this state folder, or `down` has stopped it                |
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, get_args

from tandem.views.instant import utc_text

State = Literal["running", "behind", "starting", "stuck", "dead", "given_up", "not_started"]
STATES: Final[tuple[State, ...]] = get_args(State)
SPEED: Final = "speed"
BROKER: Final = "broker"
NEEDED: Final = (BROKER, SPEED)
"""The parts without which answers do not advance."""

SILENT: Final = timedelta(seconds=5)
"""A part whose last beat is older than this makes no progress; one whose process cannot be found is dead after `GONE`."""
GONE: Final = timedelta(seconds=3)
"""For this long a beat outweighs a missing process id: in another container the same process has another id."""
MUTE: Final = timedelta(seconds=15)
"""A part that its supervisor polls must answer within this time."""
BEHIND: Final = timedelta(seconds=15)
"""A loop that makes progress is behind once records have waited for longer than this."""
_CALLED: Final = {SPEED: "the speed layer", BROKER: "the broker"}


class FollowLoop(NamedTuple):
    """How one source is followed, and what the loop waits for.

    `moved` is when the loop last did anything, `looked` when it last saw the end of the log or committed; None if it never has.
    """

    source: str
    moved: datetime
    looked: datetime | None = None
    waits: str = ""


@dataclass(frozen=True)
class Beat:
    """What a part wrote about itself at `at`, and the loops of the live release; none once it has ended."""

    at: datetime
    loops: tuple[FollowLoop, ...] = ()

    @property
    def looked(self) -> datetime | None:
        """The oldest `looked` of all loops; None if a loop has none."""
        looks = [loop.looked for loop in self.loops]
        return None if not looks or None in looks else min(at for at in looks if at is not None)


class Failure(NamedTuple):
    """How a part ended the last time: when, why, and what its supervisor advises; `over` if it is not restarted any more."""

    at: datetime
    why: str
    advice: str
    over: bool


@dataclass(frozen=True)
class Signs:
    """The signs of one part.

    | sign | meaning |
    | --- | --- |
    | `recorded` | `up` started it and `down` has not stopped it |
    | `alive` | whether its process was found; None without a process to look for |
    | `stopped` | a signal stopped its process |
    | `failure` | why it is not running, or was not before it was restarted |
    | `beat` | the process's last beat |
    | `last` | the newest sign of life of a part that does not beat |
    | `answered` | when it last answered its supervisor, which polls every second |
    | `uncounted_since` | since when the reader has known of records that are not counted |
    | `committed` | when events were last counted |
    """

    part: str
    recorded: bool = False
    alive: bool | None = None
    stopped: bool = False
    failure: Failure | None = None
    beat: Beat | None = None
    last: datetime | None = None
    answered: datetime | None = None
    uncounted_since: datetime | None = None
    committed: datetime | None = None


@dataclass(frozen=True)
class StuckBounds:
    """Bounds after which a part is stuck: `stuck` for a source that neither reaches the end of its log nor commits, `ready` for
    a start.
    """

    stuck: timedelta
    ready: timedelta


@dataclass(frozen=True)
class PartState:
    """One part's state, `since` when if that is known, why, and what to do about it.

    `age` is the seconds since it last made progress; None if it does not report that.
    """

    part: str
    state: State
    red: bool
    since: datetime | None = None
    why: str | None = None
    advice: str | None = None
    age: float | None = None

    @property
    def called(self) -> str:
        """The part's name in a sentence."""
        return _CALLED.get(self.part, f"`{self.part}`")

    @property
    def brief(self) -> str:
        """The part, its state and since when: safe for any caller."""
        since = "" if self.since is None else f" since {utc_text(self.since.replace(microsecond=0))}"
        return f"{self.called} {_SAYS[self.state]}{since}"

    @property
    def sentence(self) -> str:
        """The part, its state, why, and what to do."""
        return "".join((self.brief, f": {self.why}" if self.why else "", f"; {self.advice}" if self.advice else ""))

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        return {
            "part": self.part,
            "state": self.state,
            "red": self.red,
            "since": None if self.since is None else utc_text(self.since),
            "why": self.why,
            "advice": self.advice,
            "age_s": self.age,
            "sentence": self.sentence,
        }


_SAYS: Final[dict[State, str]] = {
    "running": "has been running",
    "behind": "has been behind",
    "starting": "has been starting",
    "stuck": "has been stuck",
    "dead": "has been dead",
    "given_up": "has been given up",
    "not_started": "is not started here",
}
_AGAIN: Final = "`tandem logs` shows its last lines, and `tandem up` restarts it"
_ANEW: Final = "`tandem logs` shows its last lines; `tandem down`, then `tandem up` restarts it"

_Decided = tuple[State, bool, datetime | None, str | None, str | None]


def state_of(signs: Signs, *, now: datetime, bounds: StuckBounds) -> PartState:
    """The state of a part at the time `now`. Times in the future, after a clock was set back, count as now."""
    worked = signs.answered or signs.last if signs.beat is None else signs.beat.looked
    age = None if worked is None else max(0.0, (now - worked).total_seconds())
    state, red, since, why, advice = _decided(signs, now=now, bounds=bounds)
    return PartState(signs.part, state, red, None if since is None else min(since, now), why, advice, age)


def _decided(signs: Signs, *, now: datetime, bounds: StuckBounds) -> _Decided:
    beat, failure = signs.beat, signs.failure
    last = signs.answered or signs.last if beat is None else beat.at
    if failure is not None and failure.over:
        return "given_up", True, failure.at, failure.why, failure.advice or _AGAIN
    silent = timedelta.max if beat is None else now - beat.at
    if not signs.alive and (signs.part != SPEED or silent > GONE):
        killed = beat is not None and bool(beat.loops)  # a part that ends in order ends its loops first
        if signs.recorded or (signs.alive is False and killed):
            since = failure.at if failure is not None else last
            why = failure.why if failure is not None else "its process has ended"
            return "dead", True, since, why, (failure.advice if failure is not None else "") or _AGAIN
        return _not_started(signs, now=now, bounds=bounds)
    if signs.stopped:
        return "stuck", True, last, "a signal stopped its process", f"`kill -CONT` continues it; {_ANEW}"
    if signs.part != SPEED:
        if signs.answered is not None and now - signs.answered > MUTE:
            return "stuck", True, signs.answered, "its process runs but does not answer", _ANEW
        if failure is not None:
            return _again(failure)
        return "running", False, None, None, None
    if beat is None:
        return _starting(signs, signs.last, now=now, bounds=bounds)
    if silent > SILENT:
        return "stuck", True, beat.at, "its process runs but makes no progress", _ANEW
    return _moves(signs, beat, now=now, bounds=bounds)


def _moves(signs: Signs, beat: Beat, *, now: datetime, bounds: StuckBounds) -> _Decided:
    """The state of a speed layer whose process makes progress: whether each source of the live release advances."""
    waits = [loop for loop in beat.loops if loop.waits]
    if waits:
        longest = min(waits, key=lambda loop: loop.looked or loop.moved)
        why = f"source '{longest.source}' is waiting: {longest.waits}"
        return "stuck", True, longest.looked or longest.moved, why, "it continues by itself once the cause is gone"
    if beat.looked is None:
        began = [loop.moved for loop in beat.loops if loop.looked is None]
        return _starting(signs, min(began, default=beat.at), now=now, bounds=bounds)
    if now - beat.looked > bounds.stuck:
        slowest = min(beat.loops, key=lambda loop: loop.looked or now)
        return "stuck", True, beat.looked, f"source '{slowest.source}' neither reaches the end of its log nor commits", _ANEW
    waited = beat.looked if signs.uncounted_since is None else min(beat.looked, signs.uncounted_since)
    if now - waited > BEHIND:
        return "behind", False, waited, "the log has records that are not counted yet", None
    return "running", False, None, None, None


def _starting(signs: Signs, since: datetime | None, *, now: datetime, bounds: StuckBounds) -> _Decided:
    if since is not None and now - since > bounds.ready:
        return "stuck", True, since, "it has started, but does not follow every source yet", _ANEW
    if signs.failure is not None:
        return _again(signs.failure)
    return "starting", False, since, "it does not follow every source yet", None


def _again(failure: Failure) -> _Decided:
    """The state of a part that starts again after a failure."""
    return "starting", True, failure.at, failure.why, failure.advice or "wait until it has started again"


def _not_started(signs: Signs, *, now: datetime, bounds: StuckBounds) -> _Decided:
    """The state of a part without signs here: it may run elsewhere, so only the log and the commits tell."""
    since = signs.uncounted_since
    if since is not None and now - since > BEHIND and signs.committed is not None and now - signs.committed <= bounds.stuck:
        return "behind", False, since, "it runs elsewhere, but the log has records that are not counted yet", None
    if since is None or now - since <= bounds.stuck:
        return "not_started", False, None, None, "`tandem up` starts it"
    why = "the log has records that are not counted, and no speed layer runs in this state folder"
    return "stuck", True, since, why, "check whether it runs elsewhere; `tandem up` starts one here"


def unknown(part: str, since: datetime | None) -> PartState:
    """The state of a part whose signs cannot be read: it may be running."""
    why, advice = "its files in the state folder cannot be read", "check whether the server can read `run` of the state folder"
    return PartState(part, "stuck", red=True, since=since, why=why, advice=advice)
