"""A release is stored byte for byte; equal files are one release."""

import pytest

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.releases import NoRelease, Releases
from tests.ledger.tiny import AT

FILES = {"definitions.py": b"VIEWS = ()\n", "tandem.toml": b"", "data/\xc3\xa4.bin": bytes(range(256))}


def test_files_are_stored_byte_for_byte(tables: Tables) -> None:
    stored = Releases(tables).store(FILES, sources={"s": "d1"}, views={"v": "f1"}, by="test", at=AT)
    loaded = Releases(tables).load(1)
    assert loaded == stored
    assert hash(loaded) == hash(stored)
    assert (loaded.number, loaded.files, loaded.sources, loaded.views) == (1, FILES, {"s": "d1"}, {"v": "f1"})


def test_the_same_files_again_are_the_same_release(tables: Tables) -> None:
    first = Releases(tables).store(FILES, sources={}, views={}, by="test", at=AT)
    assert Releases(tables).store(FILES, sources={}, views={}, by="other", at=AT) == first
    assert Releases(tables).store({**FILES, "more.py": b""}, sources={}, views={}, by="test", at=AT).number == 2
    assert Releases(tables).store(FILES, sources={}, views={}, by="test", at=AT).number == 3
    assert [release.number for release in Releases(tables).every()] == [1, 2, 3]


def test_the_same_files_with_another_meaning_are_another_release(tables: Tables) -> None:
    """As under a Tandem whose kernel computes otherwise, which has to be able to adopt them."""
    Releases(tables).store(FILES, sources={"s": "d1"}, views={"v": "f1"}, by="test", at=AT)
    assert Releases(tables).store(FILES, sources={"s": "d1"}, views={"v": "f2"}, by="test", at=AT).number == 2
    assert Releases(tables).store(FILES, sources={"s": "d2"}, views={"v": "f2"}, by="test", at=AT).number == 3


def test_a_release_that_is_not_stored_is_named(tables: Tables) -> None:
    with pytest.raises(NoRelease, match=r"release 7 is not stored in .*; stored: none"):
        Releases(tables).load(7)
