"""Changes of a log besides appends: retention, a recreated topic, another partition; and what may be lost."""

from random import Random

from tandem.ledger.log.positions import upper
from tandem.views.source.offset_ranges import Partition
from tests.simulation import programs
from tests.simulation.numbers import SOURCE, TOPIC
from tests.simulation.world import World

Place = tuple[Partition, int]
"""A partition and an offset in it."""


def retain(world: World, roll: Random) -> None:
    """Retention deletes some of the oldest records of one partition, or all of them."""
    if not _looked_at(world):
        return
    log = world.log
    number = roll.randrange(len(log.partitions))
    start, end = log.starts.get(number, 0), len(log.partitions[number])
    wanted = end if roll.random() < 0.3 else roll.randint(start, end)
    log.starts[number] = next(
        (offset for offset in range(start, wanted) if not _may_go(world, (log.topic, number), offset)), wanted
    )
    _forget_lost(world)
    world.say(f"the log deletes offsets {start} to {log.starts[number] - 1} of partition {number}")


def make_anew(world: World, roll: Random) -> bool:
    """The topic is deleted and created again under its name, unless copies would outlive what was not archived.

    Returns whether it was.
    """
    log, partitions = world.log, roll.randint(1, 3)
    lost = [(place, offset) for place in log.places for offset in _left(world, place)]
    if not _looked_at(world) or not all(_may_go(world, *one) for one in lost):
        return False
    create_again(world, partitions)
    world.say(f"the topic is created again, as {log.topic} with {partitions} partitions")
    return True


def create_again(world: World, partitions: int) -> None:
    """The topic is deleted and created again."""
    log, filed = world.log, archived(world)
    counted = upper(*(commit.end for commit in programs.commits(world)))
    for place in log.places:
        ends = [offset + 1 for partition, offset in filed if partition == place]
        world.counted_of_former[place] = max(counted.get(place, 0), *ends, 0)
    world.topics += 1
    log.make_anew(f"{TOPIC}{world.topics}", partitions)
    _forget_lost(world)


def add_partition(world: World) -> None:
    """The topic gets a partition more."""
    world.log.partitions.append([])
    world.say(f"the topic has {len(world.log.partitions)} partitions")


def refuse_unnamed_loss(world: World) -> None:
    """After an archive run that nothing disturbed: whatever the log had or somebody counted is archived or in a named gap.

    Of a topic that is gone nobody can tell what was neither counted nor archived.
    """
    filed, missing, log = archived(world), world.missing, world.log
    assert not missing & filed, f"gaps name {sorted(missing & filed)}, which the archive has"
    for partition, records in log.ever.items():
        for offset, event in enumerate(records):
            place = (partition, offset)
            known = partition in log.places or offset < world.counted_of_former.get(partition, 0)
            if event is not None and known and place not in filed and place not in missing:
                raise AssertionError(f"offset {offset} of partition {partition} is lost without a name")


def archived(world: World) -> set[Place]:
    """The places of the archive's records, as the tables are now."""
    return {((row["topic"], row["partition"]), row["offset"]) for row in world.rows(world.tables.archive(SOURCE))}


def _looked_at(world: World) -> bool:
    """Whether it is on record where the log begins: what was deleted before is no part of it."""
    return bool(world.rows(world.tables.control("firsts", SOURCE)))


def _left(world: World, place: Partition) -> range:
    return range(world.log.starts.get(place[1], 0), len(world.log.partitions[place[1]]))


def _may_go(world: World, place: Partition, offset: int) -> bool:
    """Whether the oracle can say what counts without this record: it is archived, or no other has its identity."""
    event = world.log.partitions[place[1]][offset]
    if event is None or (place, offset) in archived(world):
        return True
    return sum(other is not None and other.id == event.id for records in world.log.ever.values() for other in records) == 1


def _forget_lost(world: World) -> None:
    """Of what is lost no copies are made any more."""
    filed, log = archived(world), world.log
    kept = {
        event.id
        for partition, records in log.ever.items()
        for offset, event in enumerate(records)
        if event is not None
        and ((partition, offset) in filed or (partition[0] == log.topic and offset >= log.starts.get(partition[1], 0)))
    }
    world.received = [(event, time) for event, time in world.received if event.id in kept]
