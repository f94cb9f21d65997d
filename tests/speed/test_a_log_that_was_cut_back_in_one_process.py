"""Speed layer, archive and hot tail compare the last record that was read, and refuse a log that was cut back and grew again."""

from datetime import timedelta

import pyarrow as pa
import pytest

from tandem.infra import kafka
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.realtime import commit_files
from tandem.speed.hot.follow import RecordsLost
from tests.speed.hot.beside import Beside, away, beside, layer
from tests.speed.sales import commits, folded, some, total
from tests.speed.test_in_one_process import Layer

__all__ = ["beside", "layer"]

SAYS = "has another record at offset {}, where source 'sales' has read one: the log was cut back"


def fill(layer: Layer) -> None:
    """Three micro-batches over three partitions, counted."""
    layer.start()
    for start in (0, 30, 60):
        for partition in range(3):
            layer.topic.append(some(range(start + 5 * partition, start + 5 * partition + 5)), partition=partition)
        layer.drain()


def cut(layer: Layer, partition: int, end: int) -> None:
    layer.topic.cut_back(partition, end)
    layer.topic.append(some(range(200, 240)), partition=partition)


@pytest.mark.parametrize("partition", [0, 2])
@pytest.mark.parametrize("end", [0, 7, 14])
def test_the_speed_layer_reads_nothing_of_another_log(layer: Layer, partition: int, end: int) -> None:
    fill(layer)
    reached = folded(layer.settings)
    cut(layer, partition, end)
    with pytest.raises(LogChanged, match=SAYS.format(14)):
        layer.restart()
    assert folded(layer.settings) == reached
    assert Gaps(layer.tables).of("sales") == []


@pytest.mark.parametrize("end", [0, 14])
def test_a_running_query_reads_nothing_of_another_log(layer: Layer, end: int) -> None:
    """The broker came back with an older copy of its volume, and producers were faster than the next micro-batch."""
    fill(layer)
    reached = folded(layer.settings)
    layer.clock += timedelta(seconds=5)
    cut(layer, 1, end)
    with pytest.raises(LogChanged, match=SAYS.format(14)):
        layer.drain()
    assert folded(layer.settings) == reached
    assert "the log was cut back" in layer.said[-1]


def test_a_running_query_goes_on_behind_retention(layer: Layer) -> None:
    fill(layer)
    layer.clock += timedelta(seconds=5)
    layer.topic.append(some(range(200, 210)))
    layer.topic.delete_below({0: 15, 1: 15})
    layer.drain()
    assert total(layer.settings, "events") == 55


def test_the_speed_layer_continues_in_the_same_log(layer: Layer) -> None:
    """Also behind offsets without a record, and after compaction merged the commits."""
    fill(layer)
    layer.topic.skip(1, 3)
    layer.topic.append(some(range(100, 103)), partition=0)
    layer.drain()
    layer.restart()
    layer.restart()
    assert {place[1]: each.offset for commit in commits(layer.settings) for place, each in commit.last_records.items()} == {
        0: 17,
        1: 14,
        2: 14,
    }


def test_retention_may_have_deleted_the_record(layer: Layer) -> None:
    fill(layer)
    layer.archive()
    cut(layer, 0, 5)
    layer.topic.delete_below({0: 15})
    layer.restart()


def test_the_archive_compares_its_own_last_record(layer: Layer) -> None:
    fill(layer)
    layer.archive()
    layer.archive()
    cut(layer, 1, 3)
    with pytest.raises(LogChanged, match=SAYS.format(14)):
        layer.archive()
    assert Gaps(layer.tables).of("sales") == []


def test_an_offset_without_a_record_is_another_log(layer: Layer) -> None:
    fill(layer)
    layer.topic.cut_back(0, 10)
    layer.topic.skip(0, 10)
    with pytest.raises(LogChanged, match="has no record at offset 14"):
        layer.restart()


def test_the_hot_tail_stands_aside_from_another_log(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append(some(range(4)))
    layer.drain()
    beside.start()
    layer.topic.cut_back(0, 2)
    layer.topic.append(some(range(10, 20)))
    with pytest.raises(RecordsLost, match=SAYS.format(3)):
        beside.start()


def test_the_hot_tail_compares_once_the_broker_is_back(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = beside.layer
    layer.topic.append(some(range(4)))
    layer.drain()
    beside.start()
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "topics", away("refused"))
        beside.step()
    beside.step()
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "topics", away("refused"))
        beside.step()
    layer.topic.cut_back(0, 2)
    layer.topic.append(some(range(10, 20)))
    with pytest.raises(RecordsLost, match=SAYS.format(3)):
        beside.step()


def test_a_table_of_an_earlier_version_has_its_last_records_in_the_archive(layer: Layer) -> None:
    """Its commits have no column for them."""
    older = pa.schema([each for each in commit_files.SCHEMA if each.name != "last_records"])
    delta_tables.create_table(layer.tables, layer.tables.realtime(1, "sales"), older, commit_files.SETTINGS)
    fill(layer)
    layer.restart()
    assert total(layer.settings, "events") == 45
    assert not any(commit.last_records for commit in commits(layer.settings))
    layer.archive()
    cut(layer, 2, 1)
    with pytest.raises(LogChanged, match=SAYS.format(14)):
        layer.restart()


class CompactedLayer(Layer):
    """A layer whose topic is compacted."""

    @property
    def files(self) -> dict[str, bytes]:
        identity = b'identity=("id",)'
        return {name: text.replace(identity, identity + b", compacted=True") for name, text in super().files.items()}


def test_compaction_may_have_deleted_the_record(layer: Layer) -> None:
    compacted = CompactedLayer(layer.broker, layer.topic, layer.settings)
    fill(compacted)
    layer.topic.rows[0][14] = None
    compacted.restart()
