"""The pinned jars: two lists that agree, and every file checked against its hash."""

import hashlib
import re
from pathlib import Path

import pytest

from infra import jars


def test_ivy_fetches_exactly_what_is_locked() -> None:
    ivy = (jars.ROOT / "infra" / "ivy.xml").read_text()
    listed = re.findall(r'name="([^"]+)" rev="([^"]+)" conf="(\w+)->', ivy)
    assert sorted(f"{group}/{name}-{revision}.jar" for name, revision, group in listed) == sorted(jars.pinned())
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in jars.pinned().values())


def test_the_jars_of_this_checkout_are_the_pinned_ones() -> None:
    assert jars.differing() == ()
    assert {path.parent.name for path in jars.paths("spark")} == {"spark"}


def test_a_missing_or_altered_jar_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "a-1.jar").write_bytes(b"a")
    (tmp_path / "spark" / "b-1.jar").write_bytes(b"altered")
    pinned = {f"spark/{name}-1.jar": hashlib.sha256(name.encode()).hexdigest() for name in "abc"}
    monkeypatch.setattr(jars, "pinned", lambda: pinned)
    assert jars.differing(tmp_path) == ("spark/b-1.jar", "spark/c-1.jar")
    with pytest.raises(jars.MissingJar, match=r"c-1\.jar is missing; run \./tandem to fetch it"):
        jars.paths("spark", tmp_path)
