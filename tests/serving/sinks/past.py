"""What happens to a world that a sink follows, and the rows that its target should have."""

import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publications
from tandem.serving.connection import Connection, PublishedView
from tandem.serving.memory.store import Store
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tests.serving.world import World, hit

EVERYTHING = RowsWanted()
MANY = RowsWanted(where="n > 1")


@dataclass
class Past:
    """A world with a first event, and where its publications end."""

    world: World
    publications: list[Position] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.append(0, hit("/a", 1))
        self.world.trigger()

    def happen(self, chance: random.Random) -> None:
        """New events, late ones, a recompute, or a rollback."""
        match chance.choice(("events", "events", "late", "recompute", "rollback")):
            case "events":
                self.world.append(0, *(hit(chance.choice(("/a", "/b", None)), n, minute=60 * n) for n in range(3)))
                self.world.trigger()
            case "late":
                self.world.append(1, hit("/a", 7, minute=-300))
                self.world.trigger()
            case "recompute":
                end = self.world.writer.end
                self.world.recompute(end)
                self.publications.append(end)
            case "rollback" if len(self.publications) > 1:
                roll_back(self.world)
                self.publications.pop()


def roll_back(world: World) -> None:
    """Publish the publication before the live one again."""
    history = Publications(world.tables)
    earlier = list(history.history())[-2]
    assert history.publish(lambda _: replace(earlier, kind="rollback")) is not None


def connected(world: World, view: str) -> PublishedView:
    """A view at the newest snapshot, where its changes end."""
    connection = Connection(Store(world.tables, 1))
    published = connection.view(view)
    connection.close()
    return published


def wanted_rows(published: PublishedView, wanted: RowsWanted) -> pa.Table:
    """The answer of the query at the newest snapshot, without the label of windows."""
    now = published.now()
    rows = row_filter(now.view, wanted).rows(now.scan().table)
    return rows.select([name for name in rows.column_names if name != "window_state"])
