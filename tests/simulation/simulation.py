"""One seed, one schedule: which processes start, who goes on when, what fails, all drawn from one random generator."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache

from batch.recompute.plan import BadRequest, Request
from batch.release.apply import CannotApply
from infra.settings import Keep
from ledger.delta.delta_tables import Conflict, Unwritable, Vanished
from ledger.log.fetch_checks import Unclosed
from ledger.log.positions import Position
from ledger.publish import publications, standing
from ledger.publish.promotion import NotReady
from ledger.publish.publications import NotPublishable, Publication
from ledger.publish.releases import NoRelease
from ledger.publish.standing import Followed
from ledger.realtime_writer import Fenced
from serving.read.snapshot import Snapshot
from serving.read.snapshot_follower import UNPUBLISHED
from tests.simulation import programs
from tests.simulation.numbers import BEGIN, FIELDS, LEAST, MINUTES, NAMES, SOURCE, Choice, Event
from tests.simulation.processes import Killed, Process
from tests.simulation.programs import Reader
from tests.simulation.store import Fate, Io
from tests.simulation.world import Present, World
from views.errors import DefinitionError

STEPS = 14
_WRONG = (0, 0, 0, 0, -600, -3600, 3600, 50 * 60, -40 * 86_400, 40 * 86_400)
"""By how many seconds the clock of a record's producer is wrong."""
_WITHIN = timedelta(minutes=9, seconds=30)
"""How long after an event its copies come; the horizon of the source is ten minutes."""
_PASTS = range(-12, 0)
"""Seeds of the schedules that others begin from."""
_READERS = 2
_MOST_STEPS = 50_000
"""I/O calls of a schedule, which seldom has more than a thousand."""


@dataclass(frozen=True)
class Weather:
    """How often something happens at an I/O call, from 0 to 1."""

    change_over: float = 0.15
    kill: float = 0.0
    fail: float = 0.0
    stale: float = 0.0


WEATHERS = (
    Weather(),
    Weather(kill=0.01),
    Weather(kill=0.005, fail=0.05),
    Weather(fail=0.15),
    Weather(stale=0.1),
    Weather(kill=0.005, fail=0.05, stale=0.05),
)
_FATES: tuple[Fate, ...] = ("fails", "unacknowledged", "seems to conflict")


class Wrong(Exception):
    """A schedule that gave a wrong answer; the message ends with the trace."""

    def __init__(self, seed: int, what: str) -> None:
        super().__init__(what)
        self.seed = seed


@dataclass
class Simulation(Io):
    """`stopped` counts, by kind of error, what ended processes."""

    seed: int
    _has_a_past: bool = True
    world: World = field(init=False)
    roll: random.Random = field(init=False)
    weather: Weather = field(init=False)
    stopped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.roll = random.Random(self.seed)
        self.weather = self.kept = self.roll.choice(WEATHERS)
        self.world = self._past() if self._has_a_past else World()
        self.world.store.io = self
        self.world.keep = Keep(publications=self.roll.choice((1, 2, 3)), release_days=self.roll.choice((1, 7)))
        self._chance = self.roll.random
        self._numbers = self._steps = 0
        self._readers = [Reader(self.world) for _ in range(_READERS)]

    def _past(self) -> World:
        """What some other schedule left, or nothing."""
        seed = self.roll.choice(_PASTS)
        return past(seed).copy() if self.roll.random() < 0.9 else World()

    # What the store asks.

    def now(self) -> int:
        return int(self.world.now().timestamp() * 1000)

    def step(self, what: str) -> None:
        process = self.world.schedule.current
        if process is None:
            return
        self.world.schedule.refuse_killed()
        self._steps += 1
        assert self._steps < _MOST_STEPS, f"{process.name} does not come to an end: {what}"
        chance, weather = self._chance(), self.weather
        if chance < weather.kill:
            self._kill(process, f"killed before: {what}")
        if chance < weather.kill + weather.change_over:
            self.world.schedule.change_over()

    def look(self, address: str, newest: int, *, least: int = -1) -> int:
        """Late by some versions, but a process never sees less than it saw before or wrote itself."""
        process = self.world.schedule.current
        if process is None:
            return newest
        found = newest
        if self._chance() < self.weather.stale:
            found = max(newest - self.roll.randint(1, 3), least, min(process.seen.get(address, -1), newest))
        process.seen[address] = found
        return found

    def fate(self) -> Fate:
        if self.world.schedule.current is None or self._chance() >= self.weather.fail:
            return "lands"
        fate = self.roll.choice(_FATES)
        self.world.say(f"a commit {fate}")
        return fate

    def landed(self, address: str, version: int) -> None:
        process = self.world.schedule.current
        if process is None:
            return
        process.seen[address] = version
        chance, weather = self._chance(), self.weather
        if chance < weather.kill * 3:
            self._kill(process, "killed right after a commit")
        if chance < weather.kill * 3 + weather.change_over:
            self.world.schedule.change_over()

    def _kill(self, process: Process, why: str) -> None:
        self.world.say(why)
        process.killed = True
        raise Killed

    # The schedule.

    def run(self, steps: int = STEPS) -> None:
        """Raises Wrong."""
        Present.enter(self.world)
        try:
            for _ in range(steps):
                self._step()
            self._settle()
        except AssertionError as error:
            trace = "\n".join(self.world.trace[-400:])
            raise Wrong(self.seed, f"seed {self.seed}, {self.kept}: {error}\n{trace}") from error

    def _step(self) -> None:
        schedule, roll = self.world.schedule, self.roll
        ready = [process for process in schedule.running if not process.waits]
        if ready and self._chance() < 0.6:
            self._resume(roll.choice(ready))
            return
        if schedule.running and self.weather.kill and self._chance() < 0.05:
            process = roll.choice(schedule.running)
            self.world.trace.append(f"{process.name}: killed from outside")
            schedule.kill(process)
            self._judge(process)
        elif len(schedule.running) < 5:
            roll.choices(self._CHOICES, self._WEIGHTS)[0](self)

    def _resume(self, process: Process) -> None:
        self.world.schedule.resume(process)
        self._judge(process)
        if process.done:  # whoever waits may go on
            for other in self.world.schedule.running:
                other.waits = False

    def _start(self, name: str, program: Callable[[], object], *may: type[Exception]) -> Process:
        """`may` are the errors that may end it in any weather."""
        self._numbers += 1
        process = Process(f"{name} {self._numbers}", lambda: program() and None, may)
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
        allowed = isinstance(process.error, (*process.may, *failing, *late))
        assert allowed, f"{process.name}: {process.error!r}"

    def _produce(self) -> None:
        log, roll = self.world.log, self.roll
        for _ in range(roll.randint(1, 4)):
            event = self._event()
            log.partitions[roll.choice((0, 0, 1))].append(None if self._chance() < 0.1 else event)
        if self._chance() < 0.05:
            log.partitions[2].append(self._event())

    def _event(self) -> Event:
        """A new event, or a copy of one that the log has received within the horizon; the producer's clock may be wrong."""
        now, roll, world = self.world.now(), self.roll, self.world
        stamp = int((now + timedelta(seconds=roll.choice(_WRONG))).timestamp() * 1_000_000)
        world.received = [(event, time) for event, time in world.received if time > now - _WITHIN]
        if world.received and self._chance() < 0.3:
            return replace(roll.choice(world.received)[0], appended=stamp)
        event = Event(roll.randrange(MINUTES), roll.randint(1, 9), stamp, world.number())
        world.received.append((event, now))
        return event

    def _time_goes_by(self) -> None:
        """Only when nobody is in the middle of something: no reader takes as long as files are kept."""
        if not self.world.schedule.running:
            self.world.time += timedelta(minutes=self.roll.choice((1, 5, 9, 30, 90, 3000)))

    def _edit(self) -> None:
        """Fields are added to events, not taken away; often nothing else changes."""
        roll, now = self.roll, Choice.of(self.world.definitions)
        fields = min(now.fields + (self._chance() < 0.3), len(FIELDS) - 1)
        least = roll.randrange(len(LEAST)) if self._chance() < 0.3 else now.least
        names = roll.randrange(len(NAMES)) if self._chance() < 0.4 else now.names
        self.world.definitions = Choice(fields, least, names).number

    def _archive(self) -> None:
        self._start("archive", lambda: programs.archive(self.world))

    def _speed(self) -> None:
        batches, every = self.roll.randint(1, 8), self.roll.choice((1, 2, 3))
        self._start(
            "speed",
            lambda: programs.speed(self.world, micro_batches=batches, which=self._one_of, ahead=self._ahead, upkeep_every=every),
            Fenced,
        )

    def _one_of(self, states: Sequence[Publication]) -> Publication:
        """The live release as often as all others."""
        return states[0] if self._chance() < 0.5 else self.roll.choice(states)

    def _ahead(self, position: Position) -> Position:
        """Up to the log's end, or only some of what is there."""
        if self._chance() < 0.5:
            self._produce()
        end = self.world.log.end
        if self._chance() < 0.5:
            return end
        return Position.of(
            {partition: self.roll.randint(position.get(partition, 0), offset) for partition, offset in end.items()}
        )

    def _recompute(self) -> None:
        kind = self.roll.choice(("auto", "auto", "auto", "full", "windows", "views", "keep"))
        request = Request()
        if kind == "full":
            request = Request(mode="full")
        elif kind == "windows":
            first, last = sorted(self.roll.sample(range(MINUTES + 1), 2))
            request = Request(windows=(BEGIN + timedelta(minutes=first), BEGIN + timedelta(minutes=last)))
        elif kind == "views":
            request = Request(views=(self.roll.choice(NAMES[Choice.of(self.world.definitions).names]),))
        elif kind == "keep":
            request = Request(keep_cut=True)
        # Promotions do not wait for recomputes, which then start over; the live release may call its views otherwise.
        may = (NotPublishable, BadRequest) if kind == "views" else (NotPublishable,)
        self._start(f"recompute {kind}", lambda: programs.recompute(self.world, request), *may)

    def _apply(self) -> None:
        if self._chance() < 0.7:
            self._edit()
        lag = self.roll.choice((2, 1000))
        self._start("apply", lambda: programs.apply(self.world, lag), CannotApply, NotPublishable, DefinitionError)

    def _promote(self) -> None:
        if not standing.records(self.world.tables):
            self._apply()
            return
        lag = self.roll.choice((0, 5, 1000))
        self._start("promote", lambda: programs.promote(self.world, None, lag), NotReady, NotPublishable)

    def _roll_back(self) -> None:
        known = publications.latest(self.world.tables)
        if known is not None and known.kind == "rollback" and self._chance() < 0.7:
            self._resume_publishing()
            return
        number = self.roll.choice((None, self.roll.randint(1, known.number if known else 1)))
        self._start("rollback", lambda: programs.rollback(self.world, number), NotReady, NotPublishable)

    def _resume_publishing(self) -> None:
        self._start("resume", lambda: programs.resume(self.world), NotReady, NotPublishable)

    def _retire(self) -> None:
        known = publications.latest(self.world.tables)
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
        schedule = self.world.schedule
        while schedule.running:
            self._resume(self.roll.choice([p for p in schedule.running if not p.waits] or schedule.running))
        self.weather = Weather(change_over=0)
        self.world.trace.append("settled")
        if self._chance() < 0.3:
            self._count_below_a_cut()
        live, *beside = Followed(self.world.tables, self.world.keep.release_days).states(self.world.time) or [None]
        for state in (live, *(state for state in beside if self._chance() < 0.5)):
            self._follow_to_the_end(state)
        bridged = self._answers(Reader(self.world)).tails[SOURCE].behind_bridge
        if bridged:  # by a run that did not come to its end
            self._count_below_a_cut()
        for reader in (*self._readers, Reader(self.world)):
            assert self._answers(reader).tails[SOURCE].end == self.world.log.end, "all is counted at the end"
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
        self._at_the_end(lambda: programs.archive(self.world))
        live = publications.latest(self.world.tables)
        if live is not None and live.kind == "rollback":
            self._at_the_end(lambda: programs.resume(self.world))
        self._at_the_end(lambda: programs.recompute(self.world, Request()))

    def _answers(self, reader: Reader) -> Snapshot:
        found = reader.look()
        assert found is not None, "nothing is in the way any more, yet there is no answer"
        return found

    def _at_the_end(self, program: Callable[[], object]) -> None:
        process = self._start("at the end", program)
        while not process.done:
            self._resume(process)
        if process.error is not None:
            raise AssertionError(f"nothing is in the way any more, yet: {process.error}") from process.error

    _CHOICES = (
        *(_produce, _speed, _archive, _recompute, _maintain, _read, _time_goes_by),
        *(_apply, _promote, _roll_back, _retire),
    )
    _WEIGHTS = (5, 6, 3, 4, 1.5, 5, 1, 1.5, 3, 2, 0.3)


@cache
def past(seed: int) -> World:
    """What some schedule left, in which nothing failed: where others begin, so that they need not be long."""
    simulation = Simulation(seed, _has_a_past=False)
    simulation.weather = simulation.kept = Weather()
    simulation.run(8 * STEPS)
    return simulation.world
