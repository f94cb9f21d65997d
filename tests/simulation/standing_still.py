"""One process pauses before one of its I/O calls while others run to their end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest
from tandem.batch.release.apply import CannotApply
from tandem.infra.settings import KeepSettings
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.promotion import NotReady
from tandem.ledger.publish.publications import NotPublishable, Publication
from tandem.ledger.realtime_writer import NewerEpoch
from tests.simulation import log_changes, programs
from tests.simulation.numbers import MINUTES, Choice, Event
from tests.simulation.processes import Process
from tests.simulation.programs import Reader
from tests.simulation.simulation import Simulation, Weather, Wrong
from tests.simulation.world import Addresses, Present, World

_MAY = (NotPublishable, NotReady, CannotApply, BadRequest, NewerEpoch)
_KILLED = 1 << 19
"""The place of the run that is killed before."""
_MOST = 2000
"""More I/O calls than any command has."""
_NEW = 6
"""Events that the log gets before each look of a speed layer."""


@dataclass
class Still(Simulation):
    """Nothing is drawn. The command that `stands` lets all others go before its I/O call of the number `before`, `asked`.

    A second one stops before the first call whose words begin with `stops_before`.
    """

    stands: str = ""
    before: int = -1
    asked: str = ""
    first: Process | None = None
    stops_before: str = ""
    second: Process | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weather = self.kept = Weather(change_over=0)
        self.world.keep = KeepSettings(publications=2, release_days=1)
        self._readers = []
        Present.enter(self.world)

    def step(self, what: str) -> None:
        super().step(what)
        process = self.world.schedule.current
        if process is not None and self.stands and process.name.startswith(self.stands) and process.calls - 1 == self.before:
            self.asked, self.stands = what, ""
            self.world.say(f"stops before: {what}")
            self.world.schedule.change_over(before=what)
        elif self.stops_before and process is not self.first and what.startswith(self.stops_before):
            self.stops_before, self.second = "", process
            self.world.say(f"stops before: {what}")
            self.world.schedule.change_over(before=what)

    def go(self, name: str) -> Process:
        """Run a command as far as it gets: to its end, or until it waits for one that stands still."""
        process = self._start(name, lambda: _COMMANDS[name](self), *_MAY)
        while not process.done and not process.waits and process is not self.second:
            self._resume(process)
        return process

    def grow(self) -> None:
        """More events, on two of the partitions."""
        log = self.world.log
        for number in range(_NEW):
            appended = int(self.world.now().timestamp() * 1_000_000)
            identity = self.world.number()
            event = Event(identity * 3 % MINUTES, 1 + identity * 7 % 11, appended, identity)
            log.partitions[number % 2 % len(log.partitions)].append(event)

    def speed(self, release: int | None) -> None:
        """A worker of a release, or of the live one, in three micro-batches with upkeep after each."""
        self.grow()
        third = iter(range(1, 4))

        def which(states: Sequence[Publication]) -> Publication:
            return next((state for state in states if state.release == release), states[0])

        def ahead(start: Position) -> Position:
            end, part = self.world.log.end, next(third)
            return Position.of({p: start.get(p, 0) + max(0, at - start.get(p, 0)) * part // 3 for p, at in end.items()})

        programs.speed(self.world, micro_batches=3, which=which, ahead=ahead, upkeep_every=1, alone=self.leased)

    def read(self) -> None:
        Reader(self.world).look()

    def edit(self) -> None:
        """Other definitions, which take the former ones' place if they are applied."""
        now = Choice.of(self.world.definitions)
        self.world.definitions = Choice(now.fields, 1 - now.least, now.names).number


_COMMANDS: dict[str, Callable[[Still], object]] = {
    "archive": lambda one: programs.archive(one.world),
    "archive new": lambda one: programs.archive(one.world, new_topic=True),
    "recompute": lambda one: programs.recompute(one.world, RecomputeRequest(accepted=programs.gap_names(one.world))),
    "recompute full": lambda one: programs.recompute(
        one.world, RecomputeRequest(mode="full", accepted=programs.gap_names(one.world))
    ),
    "apply": lambda one: programs.apply(one.world, 1000),
    "promote": lambda one: programs.promote(one.world, None, 1000),
    "rollback": lambda one: programs.rollback(one.world, None),
    "resume": lambda one: programs.resume(one.world),
    "retire": lambda one: programs.retire(one.world, 2),
    "maintain": lambda one: programs.maintain(one.world),
    "speed": lambda one: one.speed(None),
    "speed beside": lambda one: one.speed(2),
    "read": lambda one: one.read(),
}
STANDING = tuple(name for name in _COMMANDS if name != "resume")
"""The commands that stand still."""
MEANWHILE: dict[str, tuple[str, ...]] = {
    "a cut moves": ("speed", "archive", "recompute"),
    "cuts move twice": ("speed", "archive", "recompute", "speed", "archive", "recompute"),
    "cuts move twice, and no other layer starts": ("archive half", "recompute", "archive", "recompute"),
    "the archive and the realtime views go on": ("speed", "archive", "speed", "speed", "archive", "speed"),
    "another release goes live": ("speed beside", "promote", "maintain"),
    "another release goes live and is computed": ("promote", "speed", "archive", "recompute", "maintain"),
    "the live release is rolled back": ("rollback", "speed", "resume", "archive", "recompute", "maintain"),
    "a release is replaced": ("edit", "apply", "maintain"),
    "a release is retired": ("retire", "maintain", "recompute"),
    "a command is started twice": ("the same",),
    "the log deletes what is archived": ("archive", "retain"),
    "the log deletes what is not archived": ("retain", "archive", "speed"),
    "the topic is created again": ("anew", "archive new", "speed"),
    "the topic is created again, and nobody looks": ("anew",),
}
"""What happens while one stands still."""
OF_TWO_MACHINES: dict[str, tuple[str, ...]] = {
    "another machine takes its lease": ("speed", "archive", "recompute"),
    "another machine takes its lease, and hours later maintains": ("speed", "archive", "recompute", "hours", "maintain"),
    "hours later another machine maintains": ("hours", "maintain"),
    "hours later another machine maintains, and pauses before it deletes": ("hours", "maintain, before it deletes"),
    "another machine writes files, and hours go by before it commits": ("archive, before it commits", "hours"),
    "another machine releases": ("edit", "apply", "speed beside", "promote", "maintain"),
    "a command is started twice": ("the same",),
    "the log deletes what is not archived": ("retain", "archive", "speed"),
    "the topic is created again": ("anew", "archive new", "speed"),
}
"""What happens while a run of one machine stands still, whose leases others take."""
_LOSING = frozenset({"retain", "anew"})


def stand(name: str, before: int, meanwhile: str, *, leased: bool = False) -> str | None:
    """One schedule; the I/O call before which the command stood still, None if it has fewer. Raises Wrong.

    With `leased` tables each command runs on a machine of its own, before which a run left files that no commit names.
    """
    one = Still(0, _has_a_past=False)
    one.world = world = base().copy()
    happens = (OF_TWO_MACHINES if leased else MEANWHILE)[meanwhile]
    one.leased, world.tables, world.machines = leased, Addresses(leased=leased), 1 << 30
    world.store.io, one.world.keep = one, KeepSettings(publications=2, release_days=1)
    one.lossy = bool(_LOSING & {*happens}) or name == "archive new"
    Present.enter(world)
    try:
        one.stands, one.before = name.partition(" ")[0], before
        one.grow()
        if leased:
            _leave_files(one)
        one._step_now = 1
        first = one.first = one._start(name, lambda: _COMMANDS[name](one), *_MAY)
        while not one.asked and not first.done:  # it waits for a lease that a killed run held
            one._resume(first)
        one.stands = ""
        if not one.asked:
            return None
        for number, command in enumerate(happens, 2):
            one._step_now = number
            _happen(one, name if command == "the same" else command)
        for process in (first, one.second):
            if process is not None and not process.done:
                one._resume(process)
        one._settle()
    except AssertionError as error:
        raise Wrong(before, f"{error}, while {name} stood still before `{one.asked}` and {meanwhile}", world.trace) from error
    return one.asked


def stand_at_each(name: str, meanwhile: str, *, first: int = 0, one_in: int = 1, leased: bool = False) -> list[str]:
    """Let a command stand still before one of `one_in` I/O calls, one schedule for each; returns these calls. Raises Wrong."""
    asked = []
    for before in range(first, _MOST, one_in):
        call = stand(name, before, meanwhile, leased=leased)
        if call is None:
            return asked
        asked.append(call)
    raise AssertionError(f"{name} does not come to an end")


def first_of_day(meanwhile: str, one_in: int, day: int, *, leased: bool = False) -> int:
    """The first of the calls that are taken on this day, each day another one.

    What happens meanwhile shifts it: a command with fewer than `one_in` calls, too, stands still on each day.
    """
    happens = [*(OF_TWO_MACHINES if leased else MEANWHILE)]
    return (day + happens.index(meanwhile) * one_in // len(happens)) % one_in


def _leave_files(one: Still) -> None:
    """A recompute is killed before its first commit to a view's table, and hours go by."""
    one._step_now, one.stops_before = _KILLED, f"commit to {one.world.tables.view('', '').rstrip('/')}"
    killed = one.go("recompute full")
    assert killed is one.second, "a run writes files, then commits them"
    one.world.schedule.kill(killed)
    one.second = None
    _happen(one, "hours")


def _happen(one: Still, command: str) -> None:
    log, world = one.world.log, one.world
    if command == "edit":
        one.edit()
    elif command == "hours":
        world.time += timedelta(hours=2 * world.keep.file_hours)
        world.trace.append("files that no commit names are old now")
    elif command == "maintain, before it deletes":
        one.stops_before = "delete "
        one.go("maintain")
        one.stops_before = ""
    elif command == "archive, before it commits":
        one.stops_before = "look at "
        one.go("archive")
        one.stops_before = ""
    elif command == "archive half":
        _archive_half(one)
    elif command == "retain":
        log.starts |= {number: len(records) for number, records in enumerate(log.partitions)}
        world.trace.append("the log deletes all its records")
    elif command == "anew":
        log_changes.create_again(world, 3)
        for _ in range(8):  # more records than the former one had
            one.grow()
    else:
        one.go(command)


def _archive_half(one: Still) -> None:
    """Archive half of what is new of each partition, as if the rest had come later."""
    log, filed = one.world.log, log_changes.archived(one.world)
    whole = log.partitions
    reached = [max([at + 1 for place, at in filed if place == (log.topic, number)] + [0]) for number in range(len(whole))]
    log.partitions = [records[: (start + len(records)) // 2] for start, records in zip(reached, whole, strict=True)]
    one.go("archive")
    log.partitions = whole


@cache
def base() -> World:
    """Release 1 is live and followed, 2 stands ready; cuts have moved; one partition is empty.

    The archive is ahead of the cut, and the realtime views are ahead of the archive.
    """
    one = Still(0, _has_a_past=False)
    one._step_now = 1
    for command in ("archive", "speed", "archive", "recompute", "speed", "edit", "apply", "speed beside", "speed"):
        _happen(one, command)
    for command in ("archive", "recompute", "speed beside", "speed", "archive", "speed", "speed", "speed beside", "edit", "edit"):
        _happen(one, command)
    return one.world
