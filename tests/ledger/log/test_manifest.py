"""A manifest describes an export, and is refused if it contradicts itself or names paths outside its folder."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tandem.ledger.log.manifest import (
    BadManifest,
    Exported,
    ExportedGap,
    ExportedRange,
    ExportedTopic,
    File,
    Manifest,
    read,
    write,
)
from tandem.views.source.offset_ranges import Ranges

FILES = [File(f"sales/part-{n}.parquet", 100 + n, f"{n}" * 64) for n in range(3)]
GOOD = Manifest(
    1,
    {
        "sales": Exported(
            topics=(ExportedTopic("z", "sales"), ExportedTopic("a", "sales")),
            covered={"z": {"0": [(0, 40)], "1": [(5, 9)]}, "a": {"0": [(0, 3)]}},
            rows=33,
            gaps=(ExportedGap("lost", {"z": {"0": [(3, 7)]}}),),
            stretches=(
                ExportedRange("z", 0, 0, 30, 20, FILES[0]),
                ExportedRange("z", 0, 30, 40, 10, FILES[1]),
                ExportedRange("z", 1, 5, 9, 0, None),
                ExportedRange("a", 0, 0, 3, 3, FILES[2]),
            ),
        )
    },
)


def sales(document: dict[str, Any]) -> Any:
    return document["sources"]["sales"]


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read(write(GOOD), "here") == GOOD
    assert GOOD.sources["sales"].ranges == Ranges.of({("z", 0): (0, 40), ("z", 1): (5, 9), ("a", 0): (0, 3)})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda one: one.clear(), "is not the manifest of an export"),
        (lambda one: one.update(format=2), "unknown format 2; this version of tandem reads format 1"),
        (lambda one: one.update(more=1), "unknown field"),
        (lambda one: sales(one)["stretches"].pop(), "the stretches of source 'sales' contain .*, but it covers"),
        (lambda one: sales(one)["stretches"][1].update(end=31), "the stretches of source 'sales' contain .*, but it covers"),
        (lambda one: sales(one)["stretches"][1].update(start=29), "stretches that overlap"),
        (lambda one: sales(one).update(rows=1), "has 1 records, and 33 in its stretches"),
        (lambda one: sales(one)["stretches"][0].update(rows=0), "has 0 records and the file sales/part-0.parquet for"),
        (lambda one: sales(one)["stretches"][0].update(rows=31), "has 31 records and the file"),
        (lambda one: sales(one)["stretches"][0].update(file=None), "has 20 records and no file"),
        (lambda one: sales(one)["stretches"][0]["file"].update(sha256="x"), "is not the manifest of an export"),
        (lambda one: sales(one)["stretches"][0]["file"].update(path=FILES[1].path), "is named twice"),
        (lambda one: sales(one)["topics"].pop(), "covers the topics"),
        (lambda one: sales(one)["covered"]["z"].update({"0": [[0, 3], [5, 40]]}), "covered with a gap from 3 to 5"),
        (lambda one: sales(one)["covered"]["z"].update({"0": [[9, 3]]}), "has an invalid range"),
        (lambda one: sales(one)["covered"]["z"].update({"x": [[0, 3]]}), "has an invalid range"),
        (lambda one: sales(one)["gaps"][0]["ranges"]["z"].update({"0": [[-1, 3]]}), "has an invalid range"),
    ],
)
def test_a_contradictory_manifest_is_refused(change: Callable[[Any], Any], sentence: str) -> None:
    document = json.loads(write(GOOD))
    change(document)
    with pytest.raises(BadManifest, match=rf"^here.*{sentence}"):
        read(json.dumps(document).encode(), "here")


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/passwd", "sales/../../x", "sales//x", "x", "./x", "sales/..", "sales/a/x", ""),
        *("sales\\..\\x", "sales/..\\x", "sales/a\\x", "sales/x\0"),
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(path: str) -> None:
    document = json.loads(write(GOOD))
    sales(document)["stretches"][0]["file"]["path"] = path
    with pytest.raises(BadManifest, match=r"is not a file of the folder; a path is <source>/<name>$"):
        read(json.dumps(document).encode(), "here")


@pytest.mark.parametrize("document", [b"", b"[]", b"\xff", b'{"format": "1"}', b"x" * 100])
def test_an_invalid_manifest_is_refused(document: bytes) -> None:
    with pytest.raises(BadManifest, match=r"^here is not the manifest of an export"):
        read(document, "here")
