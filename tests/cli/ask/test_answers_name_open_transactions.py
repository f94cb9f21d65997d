"""The line about an answer names what waits behind a transaction, once it has been open for longer than usual."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tandem.cli.command.uncounted import warning
from tandem.infra.kafka.contract import OpenTransaction
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position
from tandem.serving.read.merged_layers import Reader
from tandem.serving.status.open_transactions import LONG, BlockedPartition
from tandem.serving.status.sources import LogEnd
from tests.serving.world import forty_hits

SINCE = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_a_long_transaction_is_named_once_beside_what_waits_to_be_counted(tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    settings, snapshot = Settings(state=str(world.state)), Reader(world.tables).snapshot()
    reached = snapshot.tails["hits"].end
    (place, offset), *_ = reached.offsets
    blocked = BlockedPartition("hits", place, OpenTransaction(offset, 1000, SINCE, "billing"))

    def told(seconds: float, more: int = 0) -> list[str]:
        end = LogEnd(Position.of({**dict(reached.offsets), place: offset + more}), blocked=(blocked,))
        line = warning(
            settings,
            snapshot,
            {"hits": end, "same topic": LogEnd(blocked=(blocked,))},
            now=SINCE + LONG + timedelta(seconds=seconds),
        )
        return line.split("; ") if line else []

    assert told(-1) == []
    assert told(0)[0].startswith(f"1000 offsets of partition {place[1]} of topic 'hits' wait behind the transaction of 'billing'")
    assert sum("behind the transaction" in part for part in told(0, 3)) == 1
