"""Every jar and every package of the peers has one version and a SHA-256, and no lock names a registry."""

import re
import xml.etree.ElementTree as ET

from tandem.bench.peers.contestants.registry import FRESH
from tandem.bench.peers.provided import LOCKS
from tandem.infra.java import jar_fetch


def test_every_jar_has_its_hash() -> None:
    listed = {
        f"{one.attrib['conf'].split('->')[0]}/{one.attrib['name']}-{one.attrib['rev']}.jar"
        for one in ET.parse(LOCKS / "ivy.xml").iter("dependency")
    }
    pinned = jar_fetch.pinned(LOCKS)
    assert set(pinned) == listed
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in pinned.values())


def test_every_package_has_its_hash() -> None:
    lock = (LOCKS / "python.lock").read_text("utf-8")
    packages = re.split(r"\n(?=\S)", lock)
    assert len(packages) > 50
    assert all("==" in package.splitlines()[0] and "--hash=sha256:" in package for package in packages)
    assert "://" not in lock
    asked = [line for line in (LOCKS / "python.in").read_text("utf-8").splitlines() if not line.startswith("#")]
    assert all(f"\n{line} " in f"\n{lock}" for line in asked)


def test_every_contestant_knows_its_version() -> None:
    assert len({one.name for one in FRESH}) == len(FRESH)
    assert all(re.match(r"\d+\.\d+|checkout", one.version()) for one in FRESH)
