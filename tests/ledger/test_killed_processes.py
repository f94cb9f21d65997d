"""Real processes on real tables, killed with SIGKILL at any moment: merged answers equal the log.

Unlike a simulated crash this also stops delta-rs between two of its own writes. A seed draws what the processes do and how
long they live; when the machine lets them run is its own affair, so a seed that fails may pass the next time.
"""

import multiprocessing
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

from tandem.ledger.cut_decision import take
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.ledger.publish.publications import NotPublishable, Publications, retained
from tandem.ledger.publish.standing import cut_of
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain, end
from tandem.ledger.realtime_writer import NewerEpoch, NotContiguous
from tests.ledger.tiny import AT, LOG, SOURCE, at, claim, commit_each, decode, first, fold, merge, partial

SCHEDULES, FEW = 200, 30
PROCESSES = 3
LIFE_S = 0.06
"""The longest life of a process after the one before it was killed."""
LOOKS = 5
FORKS = multiprocessing.get_context("forkserver")


def speed(root: str, seed: int) -> None:
    """A speed layer, which fences the one before it and ends when it is fenced."""
    tables, roll = Tables(root), random.Random(seed)
    writer = claim(tables)
    while True:
        to = ahead(writer.end, roll)
        try:
            writer.append(fold(writer.end, to, writer.epoch))
            if roll.random() < 0.5:
                live, cuts = cut_of(tables, 1, SOURCE), kept(tables)
                writer.compact(merge, live=live, protect=cuts, at=AT, fanout=2)
                writer.expire(cuts, at=AT)
        except NotContiguous:
            continue
        except NewerEpoch:
            return


def batch(root: str, seed: int) -> None:
    """Batch runs, one after another: the archive is wherever it has to be."""
    tables, roll = Tables(root), random.Random(seed)
    while True:
        reached = end(Follower(tables, 1, SOURCE).poll()) or LOG_START
        archived = upper(cut_of(tables, 1, SOURCE), ahead(reached, roll))
        cut = take(tables, 1, SOURCE, archive_end=archived, patience=roll.choice([0, 1000]), by="test", at=AT)
        try:
            Publications(tables).publish(lambda parent, cut=cut: parent and replace(parent, kind="recompute", cuts={SOURCE: cut}))
        except NotPublishable:
            continue


def ahead(position: Position, roll: random.Random) -> Position:
    """A little further in the log."""
    return at(*(min(len(LOG[p]), position.get(("T", p), 0) + roll.randint(1, 3)) for p in range(2)))


def kept(tables: Tables) -> list[Position]:
    return [publication.cut(SOURCE) for publication in retained(Publications(tables).history(), keep=2, since=AT)]


def test_after_any_kill_merged_answers_equal_the_log(tmp_path: Path) -> None:
    from tests.samples import LONGER  # noqa: PLC0415 - the processes have no profile

    FORKS.set_forkserver_preload([__name__])
    for seed in range(SCHEDULES if LONGER else FEW):
        roll, tables = random.Random(seed), Tables(str(tmp_path / str(seed)))
        first(tables)
        programs = [speed, *roll.choices([speed, batch], k=PROCESSES - 1)]
        running = [FORKS.Process(target=program, args=(tables.root, roll.randrange(2**30))) for program in programs]
        for process in running:
            process.start()
        reader = Reader(tables)
        for process in roll.sample(running, len(running)):
            time.sleep(roll.random() * LIFE_S)
            process.kill()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL), f"seed {seed}: a process ended by itself"
            if roll.random() < 0.5:
                reader.look()
        commit_each(claim(tables), ahead(end(reader.follower.poll()) or LOG_START, roll))
        reader.look()


class Reader:
    """Compares what it merges with the log; where it stood at last is `reached`."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.follower, self.reached = tables, Follower(tables, 1, SOURCE), LOG_START

    def look(self) -> None:
        """The answers of all retained publications; read again if what they need went in between."""
        for _ in range(LOOKS):
            cuts, commits = kept(self.tables), self.follower.poll()
            found = [chain(commits, cut) for cut in cuts]
            problems = [each.problem for each in found if each.problem]
            if not problems:
                break
        assert not problems
        for cut, whole in zip(cuts, found, strict=True):
            tail = decode([data for commit in whole.commits for data in commit.partials.values()])
            counted = tuple(map(sum, zip(partial(LOG_START, cut), tail, strict=True)))
            assert counted == partial(LOG_START, whole.end), (cut, whole.end)
        assert self.reached.at_or_below(found[-1].end), "a reader never steps back"
        self.reached = found[-1].end
