"""The pinned jars: two lists that agree, and every file checked against its hash."""

import hashlib
import re
import sys
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.java import jar_fetch, jars
from tests.stack import environ


@pytest.mark.parametrize("lists", ["infra/locks", "tests/infra/kafka", "tests/infra/kafka/old_broker"])
def test_ivy_fetches_exactly_what_is_locked(lists: str) -> None:
    ivy, pinned = (ROOT / lists / "ivy.xml").read_text(), jar_fetch.pinned(ROOT / lists)
    listed = re.findall(r'name="([^"]+)" rev="([^"]+)" conf="(\w+)->', ivy)
    assert sorted(f"{group}/{name}-{revision}.jar" for name, revision, group in listed) == sorted(pinned)
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in pinned.values())


def test_the_jars_of_this_checkout_are_the_pinned_ones() -> None:
    assert jars.differing(jars.folder(environ())) == ()
    assert {path.parent.name for path in jars.paths("spark", environ=environ())} == {"spark"}


# As Ivy does: says what it was asked, and retrieves a file for every jar of the lock, with the bytes of its name.
IVY = """
import os, sys
from pathlib import Path
Path(os.environ["ASKED"]).open("a").write(" ".join(sys.argv[1:]) + "\\n")
to = sys.argv[-1].split("/[conf]")[0]
for name in os.environ["JARS"].split():
    path = Path(to) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(os.environ.get("BYTES", path.name))
"""
NAMES = ("spark/a-1.jar", "spark/b-1.jar", "broker/c-1.jar")


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose Java is the stand-in, and three pinned jars."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "ivy.py").write_text(IVY)
    (home / "bin" / "java").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{home}/ivy.py" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    hashes = {name: hashlib.sha256(name.split("/")[1].encode()).hexdigest() for name in NAMES}
    monkeypatch.setattr(jar_fetch, "pinned", lambda _: hashes)
    monkeypatch.setattr(jars, "pinned", lambda: hashes)
    given = {"JAVA_HOME": str(home), "TANDEM_CACHE": str(tmp_path / "cache"), "ASKED": str(tmp_path / "asked")}
    return {**given, "JARS": " ".join(NAMES)}


def test_the_first_use_fetches_and_verifies_and_later_ones_read_nothing(
    surroundings: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = jars.folder(surroundings)
    assert jars.paths("spark", environ=surroundings) == (folder / NAMES[0], folder / NAMES[1])
    assert jar_fetch.differing(folder) == ()
    assert "fetching the jars" in capfd.readouterr().err
    (folder / NAMES[1]).write_bytes(b"altered")
    assert jar_fetch.differing(folder) == (NAMES[1],)
    jars.paths("broker", environ=surroundings)
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_bytes_that_differ_from_the_pinned_ones_are_not_stored(surroundings: dict[str, str]) -> None:
    with pytest.raises(jars.MissingJar, match=r"a fetched jar differs from .*/jars\.lock: spark/a-1\.jar"):
        jars.paths("spark", environ={**surroundings, "BYTES": "other"})
    assert not jars.folder(surroundings).exists()


def test_a_cache_that_cannot_be_written_is_one_sentence(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(jars.MissingJar, match=r"cannot be written to .*; set TANDEM_CACHE"):
        jars.paths("spark", environ=surroundings)


def test_a_jar_that_cannot_be_fetched_names_the_reason_and_the_log(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "java" / "bin" / "java").write_text("#!/bin/sh\necho 'ERROR: host not found'\nexit 1\n")
    with pytest.raises(jars.MissingJar, match=r"could not be fetched: ERROR: host not found; see .*ivy\.log"):
        jars.paths("broker", environ=surroundings)
