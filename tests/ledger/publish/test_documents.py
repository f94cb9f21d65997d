"""Readers get the newest document of a release; recording an equal document again adds none."""

from pathlib import Path

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import documents


def test_each_release_has_its_newest_document(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path))
    assert documents.of(tables, 1) == b""
    for release, document in ((1, b"first"), (2, b"other"), (1, b"second"), (1, b"second")):
        documents.record(tables, release, document)
        assert documents.of(tables, release) == document
    assert documents.of(tables, 2) == b"other"
    documents.record(tables, 1, b"first")
    assert documents.of(tables, 1) == b"first", "what was stored before may come back"
