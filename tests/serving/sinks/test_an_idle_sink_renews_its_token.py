"""A sink whose view does not change commits its token again, since Kafka expires that of a group without commits."""

from itertools import count
from pathlib import Path

import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.serving.changes import RENEW_S, changes, watch
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.store import Store
from tandem.serving.read.outputs import OUTPUTS
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.sinks.changes_to_send import follow
from tandem.serving.sinks.kafka_topic import open_topic
from tests.serving.sinks.past import connected
from tests.serving.world import World, hit


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.append(0, hit("/a", 1, minute=-300), hit("/a", 3))
    made.trigger()
    return made


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_update_without_rows_renews_the_token(world: World, output: str) -> None:
    store = Store(world.tables, 1)
    pinned = store.pinned()
    watching = watch(store, pinned, "per_page", None, RowsWanted(output=output))
    first = watching.look(pinned, always=True)
    assert first is not None
    watching.sent(first)
    assert watching.look(pinned, always=True) is None
    update = watching.look(pinned, always=True, renew=True)
    assert update is not None
    assert (update.token, update.empty, update.first) == (first.token, True, False)


def test_changes_renew_a_token_after_a_day(world: World) -> None:
    store, seconds = Store(world.tables, 1), count(0.0, RENEW_S)
    store.recent.clock = lambda: next(seconds)
    token = connected(world, "per_page").now().token
    following = changes(store, "per_page", ChangesToken.parse(token))
    store.close()
    assert [update.token for update in following] == [token]


@pytest.mark.broker
@pytest.mark.parametrize("output", ["update", "append"])
def test_a_process_that_starts_commits_the_token_again(broker: kafka.BrokerConnection, world: World, output: str) -> None:
    name, wanted = f"idle-{output}", RowsWanted(output=output)

    def commits() -> int:
        """The number of records in the topic of groups' offsets."""
        return sum(kafka.ends(broker, kafka.describe(broker, ["__consumer_offsets"]).values(), committed=False).values())

    for _ in range(2):
        assert len(list(follow(connected(world, "per_page"), open_topic(broker, Settings(), name, output), wanted))) < 2
    log = open_topic(broker, Settings(), name, output)
    before, token, stored = commits(), log.token(), log.appender.newest()
    assert commits() > before
    assert stored is not None
    assert stored.text == token
    assert log.token() == token, "its own commit is not another program's"
