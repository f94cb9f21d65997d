"""One seed, one schedule: which processes start, who runs next, what fails, what happens to the log."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any, ClassVar, Literal, cast

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest
from tandem.batch.release.apply import CannotApply
from tandem.infra.kafka import NoTopic
from tandem.infra.settings import KeepSettings
from tandem.ledger.cut_decision import OutOfReach
from tandem.ledger.delta.errors import Conflict, Unwritable, Vanished
from tandem.ledger.log.fetch_checks import LogChanged, Unclosed
from tandem.ledger.log.gaps import GapNotAccepted, UnknownGap
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.promotion import NotReady
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications
from tandem.ledger.publish.releases import NoRelease
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime_writer import NewerEpoch
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import UNPUBLISHED
from tandem.speed.source.start_position import OffsetsLost
from tandem.views.errors import DefinitionError, TandemError
from tests.killed import Killed
from tests.simulation import log_changes, programs
from tests.simulation.draws import PAST, Site, fraction, roll
from tests.simulation.numbers import BEGIN, FIELDS, LEAST, MINUTES, NAMES, SOURCE, Choice, Event
from tests.simulation.pairs import Pair, step_name
from tests.simulation.processes import Process
from tests.simulation.programs import Reader
from tests.simulation.store import Fate, Io
from tests.simulation.world import LOG_CALLS, ROOT, Addresses, Present, World

STEPS = 14
_WRONG = (0, 0, 0, 0, -600, -3600, 3600, 50 * 60, -40 * 86_400, 40 * 86_400)
"""By how many seconds the clock of a record's producer is wrong."""
_WITHIN = timedelta(minutes=9, seconds=30)
"""How long after an event its copies come; the dedup window of the source is ten minutes."""
_PASTS = range(-6, 0)
"""Seeds of the schedules that others begin from."""
_LOSSY_PASTS = range(-12, -6)
_READERS = 2
_MOST_STEPS = 50_000
"""I/O calls of a schedule, which seldom has more than a thousand."""
_MOST_RUNNING = 5
_AGAIN = 4
"""Of so many processes that were started last, one may be started again."""
_OVERTAKES = 0.15
"""How often a process that waits for a lease takes it, at each look, from a holder that lives or does not."""
_RUNS = {"archive", "recompute", "apply", "maintain"}
_RENEWS = 0.02
_LEASES = -2
"""The place of a seed's number that decides whether tables have leases."""
_SETTLING = 1 << 20
"""The steps of a schedule that bring it to its end are numbered from here on."""
_ENDING = 1 << 21
"""As are those that start what has to be done at the end."""


@dataclass(frozen=True)
class Weather:
    """How often something happens at an I/O call, from 0 to 1.

    `rest` is of those who have let others go first, `log` of calls to the broker, where the log may lose records.
    """

    change_over: float = 0.15
    kill: float = 0.0
    fail: float = 0.0
    stale: float = 0.0
    rest: float = 0.0
    log: float = 0.0


WEATHERS = (
    Weather(),
    Weather(kill=0.01),
    Weather(kill=0.005, fail=0.05),
    Weather(fail=0.15),
    Weather(stale=0.1),
    Weather(kill=0.005, fail=0.05, stale=0.05),
)
_CHANGES_OVER = (0.05, 0.15, 0.15, 0.4)
_RESTS = (0.0, 0.1, 0.3)
_LOG = 0.05
_FATES: tuple[Fate, ...] = ("fails", "unacknowledged", "seems to conflict")
_LOST = (LogChanged, NoTopic, OffsetsLost, GapNotAccepted, UnknownGap, OutOfReach)
"""What a process may end with where the log loses records; it says how to go on."""

Kind = Literal["resume", "kill", "start"]


class Wrong(Exception):
    """A schedule that broke a law; the message is its trace, what happened in order."""

    def __init__(self, seed: int, law: str, trace: Sequence[str]) -> None:
        super().__init__("\n".join([f"seed {seed}: {law}", *trace]))
        self.seed, self.law, self.trace = seed, law, trace


@dataclass
class Simulation(Io):
    """A schedule, without what is drawn at some of its places: see `shrinking`.

    `stopped` counts, by kind of error, what ended processes. `drawn` are the places where something happened that can be left
    out, and `decided` says what kind of step each was. `pairs` counts which steps were interleaved.
    """

    seed: int
    without: frozenset[Site] = frozenset()
    as_before: Mapping[int, Kind] | None = None
    _has_a_past: bool = True
    world: World = field(init=False)
    roll: Random = field(init=False)
    weather: Weather = field(init=False)
    stopped: Counter[str] = field(default_factory=Counter)
    drawn: list[Site] = field(default_factory=list)
    decided: dict[int, Kind] = field(default_factory=dict)
    pairs: Counter[Pair] = field(default_factory=Counter)
    calls: int = field(default=0, init=False)
    LOSSY: ClassVar[float] = 0.5
    """The share of schedules in which the log loses records."""
    LEASED: ClassVar[float] = 0.4
    """The share of schedules in which processes of two machines write to tables on an object store."""

    def __post_init__(self) -> None:
        self.roll = roll(self.seed)
        chosen = self.roll.choice(WEATHERS)
        self.weather = replace(chosen, change_over=self.roll.choice(_CHANGES_OVER), rest=self.roll.choice(_RESTS), log=_LOG)
        self.kept = self.weather
        self.lossy = self.roll.random() < self.LOSSY
        self.world = self._past() if self._has_a_past else World()
        self.leased = fraction(self.seed, _LEASES) < self.LEASED
        self.world.tables = Addresses(leased=self.leased)
        self.world.store.io = self
        self.world.keep = KeepSettings(publications=self.roll.choice((1, 2, 3)), release_days=self.roll.choice((1, 7)))
        self._chance = self.roll.random
        self._numbers = self._step_now = self._ends = 0
        self._readers = [Reader(self.world) for _ in range(_READERS)]
        self._startable: list[tuple[str, Callable[[], object], tuple[type[Exception], ...]]] = []

    def _past(self) -> World:
        """What some other schedule left, or nothing."""
        seed = self.roll.choice((*_PASTS, *_LOSSY_PASTS) if self.lossy else _PASTS)
        found = past(seed) if self.roll.random() < 0.9 and PAST not in self.without else None
        if found is None:
            return World()
        self.drawn.append(PAST)
        return found.copy()

    # What the store asks.

    def now(self) -> int:
        return int(self.world.now().timestamp() * 1000)

    def step(self, what: str) -> None:
        process = self.world.schedule.current
        if process is None:
            return
        self.world.schedule.refuse_killed()
        self.calls += 1
        assert self.calls < _MOST_STEPS, f"{process.name} does not come to an end: {what}"
        process.calls += 1
        chance, weather = self._draw(process, 0), self.weather
        if chance < weather.kill:
            if self._happens(process, 0):
                self._kill(process, f"killed before: {_short(what)}")
        elif chance < weather.kill + weather.change_over and self._happens(process, 0):
            self.world.say(f"stops before: {_short(what)}")
            self._let_others_go(process, step_name(what))
        if self.lossy and what in LOG_CALLS and self._draw(process, 9) < self.weather.log and self._happens(process, 9):
            self._change_log(process)
        done = f"{process.kind}: {step_name(what)}"
        for other in self.world.schedule.running:
            if other is not process and other.at:
                self.pairs[other.at, done] += 1

    def look(self, address: str, newest: int, *, least: int = -1) -> int:
        """Late by some versions, but a process never sees less than it saw before or wrote itself."""
        process = self.world.schedule.current
        if process is None:
            return newest
        found = newest
        if self.weather.stale and self._draw(process, 1) < self.weather.stale and self._happens(process, 1):
            late = 1 + int(3 * self._draw(process, 2))
            found = max(newest - late, least, min(process.seen.get(address, -1), newest))
            if found != newest:
                self.world.say(f"sees version {found} of {_short(address)}, not yet {newest}")
        process.seen[address] = found
        return found

    def fate(self) -> Fate:
        process = self.world.schedule.current
        if process is None or self._draw(process, 3) >= self.weather.fail or not self._happens(process, 3):
            return "lands"
        fate = _FATES[int(len(_FATES) * self._draw(process, 4))]
        self.world.say(f"a commit {fate}")
        return fate

    def overtakes(self) -> bool:
        process = self.world.schedule.current
        return process is None or self._draw(process, 10) < _OVERTAKES

    def renews(self) -> bool:
        process = self.world.schedule.current
        return process is not None and self._draw(process, 11) < _RENEWS

    def landed(self, address: str, version: int) -> None:
        process = self.world.schedule.current
        if process is None:
            return
        process.seen[address] = version
        chance, weather = self._draw(process, 5), self.weather
        if chance < weather.kill * 3:
            if self._happens(process, 5):
                self._kill(process, "killed right after a commit")
        elif chance < weather.kill * 3 + weather.change_over and self._happens(process, 5):
            self.world.say(f"stops after its commit to {_short(address)}")
            self._let_others_go(process, step_name(f"hear of {address}"))

    def _change_log(self, process: Process) -> None:
        """Something happens to the log just when the process is about to ask or to fetch."""
        before, self.roll = self.roll, roll(self.seed, process.site, process.calls)
        if self.roll.random() < 0.6:
            self._retain()
        else:
            self._make_anew()
        self.roll = before

    def _draw(self, process: Process, purpose: int) -> float:
        return fraction(self.seed, process.site, process.calls, purpose)

    def _happens(self, process: Process, purpose: int) -> bool:
        """Whether what was drawn at this I/O call is part of the schedule."""
        site = (process.site, process.calls, purpose)
        if site in self.without:
            return False
        self.drawn.append(site)
        return True

    def _let_others_go(self, process: Process, before: str) -> None:
        if self._draw(process, 6) < self.weather.rest:
            process.rests = 1 + int(8 * self._draw(process, 7))
        self.world.schedule.change_over(before=before)

    def _kill(self, process: Process, why: str) -> None:
        self.world.say(why)
        process.killed = True
        raise Killed

    # The schedule.

    def run(self, steps: int = STEPS) -> None:
        """Raises Wrong."""
        Present.enter(self.world)
        try:
            for number in range(steps):
                self._step(number)
            self._settle()
        except AssertionError as error:
            raise Wrong(self.seed, str(error), self.world.trace[-400:]) from error

    def _step(self, number: int) -> None:
        schedule = self.world.schedule
        self._enter(number)
        if (number,) in self.without:
            return
        for process in schedule.running:
            process.rests = max(0, process.rests - 1)
        ready = [process for process in schedule.running if not process.waits and not process.rests]
        resumes, kills, most = self._chance() < 0.6, self._chance() < 0.02, _MOST_RUNNING
        if self.as_before is not None:
            kind, most = self.as_before.get(number), STEPS
        elif ready and resumes:
            kind = "resume"
        else:
            kind = "kill" if schedule.running and self.weather.kill and kills else "start"
        if kind == "resume" and ready:
            self._resume(self._one(ready))
        elif kind == "kill" and schedule.running:
            process = self._one(schedule.running)
            self.world.trace.append(f"{process.name}: killed from outside")
            schedule.kill(process)
            self._judge(process)
        elif kind == "start" and len(schedule.running) < most:
            self.roll.choices(self._CHOICES, [*self._WEIGHTS, *self._FURTHER[self.lossy]])[0](self)
        else:
            return
        self.drawn.append((number,))
        self.decided[number] = kind

    def _enter(self, number: int) -> None:
        self._step_now, self.roll = number, roll(self.seed, number)
        self._chance = self.roll.random

    def _one(self, processes: Sequence[Process]) -> Process:
        """One of them, which is the same one without some of the others."""
        return min(processes, key=lambda process: fraction(self.seed, self._step_now, process.site, 8))

    def _resume(self, process: Process) -> None:
        self.world.schedule.resume(process)
        self._judge(process)
        if process.done:  # whoever waits may go on
            for other in self.world.schedule.running:
                other.waits = False

    def _start(self, name: str, program: Callable[[], object], *may: type[Exception]) -> Process:
        """`may` are the errors that may end it in any weather."""
        self._startable.append((name, program, may))
        self._numbers += 1
        process = Process(f"{name} {self._numbers}", lambda: cast("None", program()), may, name.partition(" ")[0], self._step_now)
        self.world.trace.append(f"{process.name} starts")
        self.world.schedule.start(process)
        self._judge(process)
        return process

    def _judge(self, process: Process) -> None:
        if process.error is None:
            return
        self.stopped[type(process.error).__name__] += 1
        self.world.trace.append(f"{process.name} ends: {process.error!r}")
        failing = (Unwritable, Conflict) if self.kept.fail else ()
        late = (NoRelease, Unwritable, Vanished, Unclosed) if self.kept.stale else ()
        allowed = isinstance(process.error, (*process.may, *failing, *late, *(_LOST if self.lossy else ())))
        # Whatever it found after another process had taken its lease: it wrote nothing of it.
        allowed = allowed or (isinstance(process.error, TandemError) and self.world.has_lost(process))
        assert allowed, f"{process.name}: {process.error!r}"

    def _again(self) -> None:
        """A process that was started lately is started once more, whether it still runs or not."""
        known = [one for one in self._startable if one[0] != "reader"]
        if known:
            name, program, may = self.roll.choice(known[-_AGAIN:])
            self._start(name, program, *may)

    def _produce(self) -> None:
        log, roll = self.world.log, self.roll
        for _ in range(roll.randint(1, 4)):
            event = self._event(roll)
            log.partitions[roll.choice((0, 0, 1)) % len(log.partitions)].append(None if roll.random() < 0.1 else event)
        if roll.random() < 0.05:
            log.partitions[-1].append(self._event(roll))
        self.world.say(f"the log has grown up to {log.end}")

    def _event(self, roll: Random) -> Event:
        """A new event, or a copy of one that the log has received within the dedup window; the producer's clock may be wrong."""
        now, world = self.world.now(), self.world
        stamp = int((now + timedelta(seconds=roll.choice(_WRONG))).timestamp() * 1_000_000)
        world.received = [(event, time) for event, time in world.received if time > now - _WITHIN]
        if world.received and roll.random() < 0.3:
            return replace(roll.choice(world.received)[0], appended=stamp)
        event = Event(roll.randrange(MINUTES), roll.randint(1, 9), stamp, world.number())
        world.received.append((event, now))
        return event

    def _retain(self) -> None:
        log_changes.retain(self.world, self.roll)

    def _make_anew(self) -> None:
        if log_changes.make_anew(self.world, self.roll):
            for _ in range(self.roll.randint(0, 3)):  # producers go on
                self._produce()

    def _add_partition(self) -> None:
        log_changes.add_partition(self.world)

    def _time_goes_by(self) -> None:
        """Only when no reader is in the middle of something: none takes as long as files are kept.

        On an object store any run may be paused for as long as one likes, since no lock of it stays.
        """
        running = {process.kind for process in self.world.schedule.running}
        if not running or (self.leased and running <= _RUNS):
            self.world.time += timedelta(minutes=self.roll.choice((1, 5, 9, 30, 90, 3000)))
            self.world.trace.append(f"it is {self.world.time:%d %H:%M}")

    def _edit(self) -> None:
        """Fields are added to events, not taken away; often nothing else changes."""
        roll, now = self.roll, Choice.of(self.world.definitions)
        fields = min(now.fields + (self._chance() < 0.3), len(FIELDS) - 1)
        least = roll.randrange(len(LEAST)) if self._chance() < 0.3 else now.least
        names = roll.randrange(len(NAMES)) if self._chance() < 0.4 else now.names
        self.world.definitions = Choice(fields, least, names).number

    def _archive(self) -> None:
        new_topic = self.lossy and self._chance() < 0.5
        self._start("archive", lambda: programs.archive(self.world, new_topic=new_topic))

    def _speed(self) -> None:
        own = roll(self.seed, self._step_now, 1)
        batches, every = own.randint(1, 8), own.choice((1, 2, 3))
        alone = self.leased and roll(self.seed, self._step_now, 3).random() < 0.5

        def which(states: Sequence[Publication]) -> Publication:
            """The live release as often as all others."""
            return states[0] if own.random() < 0.5 else own.choice(states)

        def ahead(position: Position) -> Position:
            """Up to the log's end, or only some of what is there."""
            if own.random() < 0.5:
                before, self.roll = self.roll, own
                self._produce()
                self.roll = before
            end = self.world.log.end
            if own.random() < 0.5:
                return end
            starts = {partition: min(position.get(partition, 0), offset) for partition, offset in end.items()}
            return Position.of({partition: own.randint(starts[partition], offset) for partition, offset in end.items()})

        self._start(
            "speed",
            lambda: programs.speed(self.world, micro_batches=batches, which=which, ahead=ahead, upkeep_every=every, alone=alone),
            NewerEpoch,
        )

    def _recompute(self) -> None:
        kind = self.roll.choice(("auto", "auto", "auto", "full", "windows", "views", "keep"))
        accepted = programs.gap_names(self.world) if self.lossy and self._chance() < 0.7 else ()
        request = RecomputeRequest(accepted=accepted)
        if kind == "full":
            request = RecomputeRequest(mode="full", accepted=accepted)
        elif kind == "windows":
            first, last = sorted(self.roll.sample(range(MINUTES + 1), 2))
            windows = (BEGIN + timedelta(minutes=first), BEGIN + timedelta(minutes=last))
            request = RecomputeRequest(windows=windows, accepted=accepted)
        elif kind == "views":
            chosen = self.roll.choice(NAMES[Choice.of(self.world.definitions).names])
            request = RecomputeRequest(views=(chosen,), accepted=accepted)
        elif kind == "keep":
            request = RecomputeRequest(keep_cut=True, accepted=accepted)
        # Promotions do not wait for recomputes, which then start over; the live release may call its views otherwise.
        may = (NotPublishable, BadRequest) if kind == "views" else (NotPublishable,)
        self._start(f"recompute {kind}", lambda: programs.recompute(self.world, request), *may)

    def _apply(self) -> None:
        if self._chance() < 0.7:
            self._edit()
        lag = self.roll.choice((2, 1000))
        self._start("apply", lambda: programs.apply(self.world, lag), CannotApply, NotPublishable, DefinitionError)

    def _promote(self) -> None:
        if not StandingReleases(self.world.tables).records():
            self._apply()
            return
        lag = self.roll.choice((0, 5, 1000))
        self._start("promote", lambda: programs.promote(self.world, None, lag), NotReady, NotPublishable)

    def _roll_back(self) -> None:
        known = Publications(self.world.tables).latest()
        if known is not None and known.kind == "rollback" and self._chance() < 0.7:
            self._resume_publishing()
            return
        number = self.roll.choice((None, self.roll.randint(1, known.number if known else 1)))
        self._start("rollback", lambda: programs.rollback(self.world, number), NotReady, NotPublishable)

    def _resume_publishing(self) -> None:
        self._start("resume", lambda: programs.resume(self.world), NotReady, NotPublishable)

    def _retire(self) -> None:
        known = Publications(self.world.tables).latest()
        release = self.roll.randint(1, known.release + 1 if known else 1)
        self._start("retire", lambda: programs.retire(self.world, release), NotReady, NotPublishable)

    def _maintain(self) -> None:
        self._start("maintain", lambda: programs.maintain(self.world))

    def _read(self) -> None:
        if not self._readers:
            return
        reader = self.roll.choice(self._readers)
        self._readers.remove(reader)  # one thread at a time

        def look() -> None:
            if reader.look() is None:
                assert self.weather.stale or reader.failure == UNPUBLISHED, f"a reader has no answer: {reader.failure}"
            self._readers.append(reader)

        self._start("reader", look)

    def _settle(self) -> None:
        """Let everything come to its end; then, in good weather, the log is counted whole, by new readers and by those before."""
        schedule, number = self.world.schedule, _SETTLING
        while schedule.running:
            self._step_now, number = number, number + 1
            self._resume(self._one([process for process in schedule.running if not process.waits] or schedule.running))
        self.weather = Weather(change_over=0)
        self.world.trace.append("settled")
        self.roll = roll(self.seed, _ENDING)
        self._chance = self.roll.random
        if self.lossy:
            self._at_the_end(lambda: programs.archive(self.world, new_topic=True))
            log_changes.refuse_unnamed_loss(self.world)
        if self._chance() < 0.3:
            self._count_below_a_cut()
        live, *beside = Followed(StandingReleases(self.world.tables), self.world.keep.release_days).states(self.world.time) or [
            None
        ]
        for state in (live, *(state for state in beside if self._chance() < 0.5)):
            self._follow_to_the_end(state)
        bridged = self._answers(Reader(self.world)).tails[SOURCE].behind_bridge
        if bridged:  # by a run that did not come to its end
            self._count_below_a_cut()
        for reader in (*self._readers, Reader(self.world)):
            end = self._answers(reader).tails[SOURCE].end
            assert self.world.log.end.at_or_below(end), f"answers stand at {end}, the log ends at {self.world.log.end}"
        programs.ask_the_past(self.world, self.world.time)
        programs.ask_the_standing(self.world)

    def _follow_to_the_end(self, one: Publication | None) -> None:
        """None is the live release, of which there may be none yet."""

        def which(states: Sequence[Publication]) -> Publication:
            return next(state for state in states if one is None or state.release == one.release)

        world = self.world
        self._at_the_end(
            lambda: programs.speed(world, micro_batches=1, which=which, ahead=lambda _: world.log.end, upkeep_every=2)
        )

    def _count_below_a_cut(self) -> None:
        self._at_the_end(lambda: programs.archive(self.world, new_topic=self.lossy))
        live = Publications(self.world.tables).latest()
        if live is not None and live.kind == "rollback":
            self._at_the_end(lambda: programs.resume(self.world))
        self._at_the_end(lambda: programs.recompute(self.world, RecomputeRequest(accepted=programs.gap_names(self.world))))

    def _answers(self, reader: Reader) -> Snapshot:
        found = reader.look()
        assert found is not None, "nothing is in the way any more, yet there is no answer"
        return found

    def _at_the_end(self, program: Callable[[], object]) -> None:
        self._ends += 1
        self._step_now = _ENDING + self._ends
        process = self._start("ending", program)
        while not process.done:
            self._resume(process)
        if process.error is not None:
            raise AssertionError(f"nothing is in the way any more, yet: {process.error}") from process.error

    _CHOICES: ClassVar[tuple[Callable[[Any], None], ...]] = (
        *(_produce, _speed, _archive, _recompute, _maintain, _read, _time_goes_by),
        *(_apply, _promote, _roll_back, _retire),
        *(_again, _retain, _make_anew, _add_partition),
    )
    _WEIGHTS: ClassVar[tuple[float, ...]] = (5, 6, 3, 4, 1.5, 5, 1, 1.5, 3, 2, 0.3)
    _FURTHER: ClassVar = {False: (3, 0, 0, 0), True: (3, 7, 2.5, 0.5)}


@cache
def past(seed: int) -> World | None:
    """What some schedule left, in which nothing failed: where others begin, to be short; None if it was wrong."""
    simulation = (_LossyPast if seed in _LOSSY_PASTS else _Past)(seed, _has_a_past=False)
    simulation.weather = simulation.kept = Weather()
    try:
        simulation.run(8 * STEPS)
    except Wrong:
        return None
    return simulation.world


class _Past(Simulation):
    LOSSY = 0.0
    LEASED = 0.0


class _LossyPast(Simulation):
    LOSSY = 1.0
    LEASED = 0.0


def _short(what: str) -> str:
    return what.replace(f"{ROOT}/", "")
