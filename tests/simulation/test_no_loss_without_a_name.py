"""Whatever the log loses between commands: every record it had is in the archive or in a gap with one way on.

`./tandem test -- tests/simulation/test_no_loss_without_a_name.py --seed 17 -n 0 -s` replays the commands of one seed.
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tandem.batch.archive import copy
from tandem.batch.archive.copy_task import Copied
from tandem.batch.archive.decode_runs import decode_archived
from tandem.infra.kafka import NoTopic
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveProgress
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.releases import Releases
from tandem.speed.source.start_position import OffsetsLost
from tests.killed import Killed
from tests.samples import cases
from tests.simulation import programs
from tests.simulation.losses import Losses
from tests.simulation.moving import without_files
from tests.simulation.numbers import SOURCE
from tests.simulation.world import LOG_CALLS, Fetched, Run, found_in, stored, surroundings

SCHEDULES = cases(60, bug=250, longer=5000)
STEPS = 30


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings(), without_files():
        yield


def drawn(roll: random.Random) -> tuple[str, dict[str, Any]]:
    """What happens next, to the log or by a command."""
    partition, tenths = roll.randrange(4), roll.choice((10, 10, roll.randrange(11)))
    records = [roll.random() < 0.8 for _ in range(roll.randint(1, 5))]
    markers = [False] * roll.randint(1, 2)
    kinds: tuple[tuple[float, str, dict[str, Any]], ...] = (
        (6, "produce", {"partition": partition, "kinds": records}),
        (1, "produce", {"partition": partition, "kinds": markers}),
        (5, "retain", {"partition": partition, "tenths": tenths}),
        (3, "archive", {"new_topic": roll.random() < 0.5}),
        (4, "follow", {"tenths": roll.choices((10, 10, 5, 2), k=roll.randrange(4)), "loses": roll.choice((0, 0, 0, tenths))}),
        (2, "recompute", {"accept": roll.random() < 0.5}),
        (0.5, "add_partition", {}),
        (0.5, "compact", {"partition": partition}),
        (0.6, "make_anew", {"partitions": roll.randint(1, 3)}),
        (0.5, "move", {}),
    )
    _, name, values = roll.choices(kinds, [weight for weight, _, _ in kinds])[0]
    return name, values


def run(seed: int) -> Losses:
    """Raises AssertionError with the commands that came before."""
    roll, one, done = random.Random(seed), Losses(), list[str]()
    try:
        for _ in range(roll.randint(6, STEPS)):
            name, values = drawn(roll)
            done.append(f"{name} {values}")
            getattr(one, name)(**values)
            one.judge()
        done.append("settle")
        one.settle()
    except Exception as error:
        told = "\n".join([f"seed {seed}: {error!r}", *done, *one.world.trace[-60:]])
        raise AssertionError(told) from error
    return one


def test_a_topic_emptied_before_the_first_poll_and_recreated_has_a_gap() -> None:
    """The layer stood at the first offset of a partition, above which nothing has ever come."""
    one = Losses()
    one.produce(1, [True, False])
    one.retain(1, 10)
    one.archive(new_topic=False)
    one.follow([10], loses=0)
    one.make_anew(2)
    one.archive(new_topic=True)
    one.recompute(accept=False)
    one.settle()
    assert one.gaps == []


def test_nobody_counts_past_records_lost_before_they_were_archived() -> None:
    """The layer refuses and names the offsets; once an archive run has made a gap of them, it goes on behind it."""
    one = Losses()
    one.produce(0, [True] * 3)
    one.follow([10], loses=0)
    one.produce(0, [True] * 4)
    one.retain(0, 7)
    counted = [each for each in programs.commits(one.world) if not each.mark]
    with pytest.raises(OffsetsLost, match=r"offsets 3 to 3 of partition 0 .*the log now starts at 4, and the archive ends at 0"):
        programs.follow(one.world, [lambda start: one._ahead(start, 10)], meanwhile=lambda: None)
    assert [each for each in programs.commits(one.world) if not each.mark] == counted
    one.archive(new_topic=False)
    one.follow([10], loses=0)
    one.judge()
    assert len(one.gaps) == 1


def test_records_that_a_run_removes_from_the_archive_are_in_no_other_table() -> None:
    """The topic is created again between the run's look and its fetch: its tasks copy and decode another log."""
    one = Losses()
    one.produce(0, [True] * 3)
    one.archive(new_topic=False)
    former = one.world.log.topic
    one.produce(0, [True] * 2)
    copied = copy.copy

    def created_again_meanwhile(*given: Any, **named: Any) -> Copied:
        if one.world.log.topic == former:
            one.make_anew(1)
            one.produce(0, [True] * 8)
        return copied(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy, "copy", created_again_meanwhile)
        patch.setattr(Fetched, "within", lambda self, covered: list(self.world.log.fetched(covered)))
        programs.archive(one.world, new_topic=True)
    tables = one.world.tables
    decoder = Releases(tables).load(1).sources[SOURCE]
    assert [gap.ranges.to_json() for gap in one.gaps] == [{former: {"0": [[3, 5]]}}]
    assert ArchiveLedger(tables, SOURCE).progress(decoder) == ArchiveProgress(2, 2, 2)
    events = [found_in(row)[:2] for row in stored(tables.events(SOURCE, decoder))]
    assert sorted(events) == sorted(one.filed) == [((former, 0), offset) for offset in range(3)]
    one.settle()


@pytest.mark.parametrize("decoder", ["live", "beside"])
@pytest.mark.parametrize("at", ["record", "check"])
def test_an_archive_run_killed_between_its_commit_and_its_gaps_loses_no_name(at: str, decoder: str) -> None:
    """Until the next run, nobody counts beyond what is named; then the gap is there, also for a release that decoded the run."""
    one = Losses()
    one.produce(0, [True] * 3)
    one.follow([], loses=0)
    one.retain(0, 7)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gaps if at == "record" else ArchiveLedger, at, killed)
        with pytest.raises(Killed):
            one.archive(new_topic=False)
    one.judge()
    ledger = ArchiveLedger(one.world.tables, SOURCE)
    assert ledger.accounted() == LOG_START
    if decoder == "beside":
        tables = one.world.tables
        run: Any = Run(one.world, "apply")
        decode_archived(run, Releases(tables).load(1), one.world.working_tree().sources[SOURCE])
    one.follow([10], loses=0)
    one.judge()
    one.archive(new_topic=False)
    assert len(one.gaps) == 1
    assert ledger.accounted() == one.world.log.end
    one.follow([10], loses=0)
    one.settle()


_REQUESTS = 12
"""More than an archive run has requests to the broker."""


@pytest.mark.parametrize("request_", range(_REQUESTS))
def test_a_topic_recreated_before_any_request_of_an_archive_run_has_a_gap(request_: int) -> None:
    """The run began with a topic that had lost records. Whichever topic its answers are of, the loss is named."""
    one = Losses()
    one.produce(0, [True] * 2)
    one.follow([10], loses=0)
    one.archive(new_topic=False)
    one.produce(0, [True] * 4)
    one.follow([10], loses=0)
    one.retain(0, 7)
    asked = itertools.count()
    looks = one.world.looks

    def made_anew(what: str) -> None:
        if what in LOG_CALLS and next(asked) == request_:
            one.make_anew(1)
            one.produce(0, [True])
        looks(what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one.world, "looks", made_anew)
        with suppress(LogChanged, NoTopic):
            programs.archive(one.world)
    one.judge()
    one.archive(new_topic=True)
    one.recompute(accept=True)
    one.settle()


def test_every_offset_of_the_log_is_in_the_archive_or_in_a_gap(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    if seed is not None:
        print("\n".join(run(seed).world.trace))  # noqa: T201  # what was asked for
        return
    named = 0
    for seed in range(SCHEDULES):
        named += len(run(seed).gaps)
    assert named > SCHEDULES // 2, "the log hardly loses anything"
