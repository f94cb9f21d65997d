"""A JSON source's files: arrays of values, values over several lines, and lines, each value byte for byte."""

import io
import json
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tandem import Event, Source
from tandem.cli.records import json_values as reading
from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.file_values import file_values
from tandem.views.errors import TandemError


class Line(Event):
    at: datetime


SINGLE = Source(topic="lines", event=Line, event_time="at", name="lines")
LISTS = Source(topic="lines", event=Line, event_time="at", max_events_per_record=2, name="lines")
KEYED = Source(topic="lines", event=Line, event_time="at", max_events_per_record=2, key="at", name="lines")


def values(tmp_path: Path, data: bytes, source: Source = SINGLE) -> list[BundledValue]:
    file = tmp_path / "export.json"
    file.write_bytes(data)
    with file_values(source, file) as found:
        return list(found)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'[{"a": 1}, {"a": 2}]', [(1, b'{"a": 1}'), (1, b'{"a": 2}')]),
        (b'[\n  {"a": 1},\n  {"a": [1,\n 2]}\n]\n', [(2, b'{"a": 1}'), (3, b'{"a": [1,\n 2]}')]),
        (b'\xef\xbb\xbf\r\n[{"a": "]\\"\xc3\xa4\xff"}]', [(2, b'{"a": "]\\"\xc3\xa4\xff"}')]),
        (b'{\n  "a": 1\n}\n{\n  "a": 2\n}\n', [(1, b'{\n  "a": 1\n}'), (4, b'{\n  "a": 2\n}')]),
        (b"[]", []),
        (b"[ 1, 23 ]\n", [(1, b"1"), (1, b"23")]),
        (b'[{"n": ' + b"9" * 5000 + b"}]", [(1, b'{"n": ' + b"9" * 5000 + b"}")]),
        # A line is a value, also one that is not JSON; such a file is of lines.
        (b'{"a": 1}\n{"a": \n{"a": 3}\n', [(1, b'{"a": 1}'), (2, b'{"a": '), (3, b'{"a": 3}')]),
        (b'{"a": "x\n{"a": 3}\n', [(1, b'{"a": "x'), (2, b'{"a": 3}')]),
        (b"[broken\n1\n", [(1, b"[broken"), (2, b"1")]),
        (b"", []),
    ],
)
def test_each_value_is_a_record_byte_for_byte(tmp_path: Path, data: bytes, expected: list[tuple[int, bytes]]) -> None:
    assert [(value.line, value.value) for value in values(tmp_path, data)] == expected


COLLECTION = b'{"crs": {"a": [1]}, "type" : "FeatureCollection",\n"features": [ {"a": 1},\n {"a": [2, "]"]} ] , "bbox": [1, 2]}\n'


class Whole(Event):
    at: datetime
    features: list[int]


WHOLE = Source(topic="lines", event=Whole, event_time="at", name="lines")


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_each_feature_of_geojson_is_a_record_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(reading, "_CHUNK", chunk)
    expected = [(2, b'{"a": 1}'), (3, b'{"a": [2, "]"]}')]
    assert [(value.line, value.value) for value in values(tmp_path, COLLECTION)] == expected
    assert values(tmp_path, b'{"type": "FeatureCollection", "features": []}') == []
    # Two collections, a line each, are two values; so is one that the event type reads.
    line = COLLECTION.replace(b"\n", b"")
    assert [value.value for value in values(tmp_path, line + b"\n" + line)] == [line, line]
    assert [value.value for value in values(tmp_path, COLLECTION, WHOLE)] == [COLLECTION.strip()]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (COLLECTION.replace(b"[2,", b"[2;"), "line 3 of export.json: this is not a JSON value"),
        (COLLECTION.replace(b",\n {", b"\n {"), "line 3 of export.json: expected ',' or ']' after an item"),
        (COLLECTION.replace(b"}\n", b""), "line 3 of export.json: the FeatureCollection has no end"),
        (COLLECTION + b"{}", "line 4 of export.json: something follows the FeatureCollection"),
        (COLLECTION.replace(b', "bbox":', b', "bbox"'), "line 3 of export.json: expected ':' after the name of a member"),
        (COLLECTION.replace(b', "bbox"', b', bbox"'), "line 3 of export.json: expected the name of a member"),
        (COLLECTION[: COLLECTION.index(b"]} ]")], "line 3 of export.json: this is not a JSON value"),
    ],
)
def test_a_broken_collection_gives_the_features_before_the_place(data: bytes, sentence: str) -> None:
    features = reading.feature_values(io.BytesIO(data), "export.json")
    assert next(features).value == b'{"a": 1}'
    with pytest.raises(TandemError) as refused:
        list(features)
    assert str(refused.value).startswith(sentence)


def test_where_a_value_is_a_list_items_are_put_together(tmp_path: Path) -> None:
    data = b'[\n{"a": 1},\n{"a": 2},\n{"a": 3}]'
    assert [value.value for value in values(tmp_path, data, LISTS)] == [b'[{"a": 1},{"a": 2}]', b'[{"a": 3}]']
    assert [value.value for value in values(tmp_path, data, KEYED)] == [b'[{"a": 1}]', b'[{"a": 2}]', b'[{"a": 3}]']
    # A line that is an array is a value already.
    lines = b'[{"a": 1}]\n[{"a": 2},{"a": 3}]\n'
    assert [value.value for value in values(tmp_path, lines, LISTS)] == lines.splitlines()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'[{"a": 1},\n{"a": x}]', "line 2 of export.json: this is not a JSON value"),
        (b'[{"a": 1}\n{"a": 2}]', "line 2 of export.json: expected ',' or ']' after an item"),
        (b'[{"a": 1},\n', "line 2 of export.json: the array has no end"),
        (b'[{"a": 1}, {"a"', "line 1 of export.json: this is not a JSON value"),
    ],
)
def test_a_broken_array_gives_the_values_before_the_place_that_it_names(data: bytes, sentence: str) -> None:
    found = reading.json_values(io.BytesIO(data), "export.json")
    assert next(found).value == b'{"a": 1}'
    with pytest.raises(TandemError) as refused:
        list(found)
    assert str(refused.value).startswith(sentence)


def drawn(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(4 if depth > 2 else 6)
    match kind:
        case 0:
            return random.choice([None, True, False, random.randrange(10**20), -1.5e-9])
        case 1 | 2 | 3:
            return "".join(random.choice('a"\\[]{},: ä\n') for _ in range(random.randrange(9)))
        case 4:
            return [drawn(random, depth + 1) for _ in range(random.randrange(4))]
        case _:
            return {str(number): drawn(random, depth + 1) for number in range(random.randrange(4))}


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_values_are_those_of_pythons_reader(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """However the bytes arrive, and however the document is written."""
    monkeypatch.setattr(reading, "_CHUNK", chunk)
    for seed in range(150):
        random = Random(seed)
        items = [{"item": drawn(random)} for _ in range(random.randrange(1, 6))]
        style: dict[str, Any] = {"indent": random.choice([None, 2]), "ensure_ascii": random.random() < 0.5}
        whole = json.dumps(items, **style) if random.random() < 0.5 else "\n".join(json.dumps(item, **style) for item in items)
        found = list(reading.json_values(io.BytesIO(whole.encode()), "f"))
        assert [json.loads(value.value) for value in found] == items, seed
        assert all(value.value in whole.encode() for value in found)
