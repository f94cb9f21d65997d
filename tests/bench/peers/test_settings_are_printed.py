"""What a contestant is given beyond its defaults is printed, and suits what is measured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.bench.peers.contestant import Resources, Setting
from tandem.bench.peers.contestants import tandem
from tandem.bench.peers.contestants.kafka_streams import AT_LEAST_ONCE, EXACTLY_ONCE
from tandem.bench.peers.contestants.tandem_served import SERVED


def test_every_variable_of_a_server_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tandem, "reached", lambda _: {})
    nowhere: Any = SimpleNamespace(address=None)
    given = Setting(cores=2, memory="1g", folder=tmp_path, connection=nowhere, topic="t", output="o", provided=nowhere)
    for one in SERVED:
        variables = set(one.command(given).environ) - {"TANDEM_STATE", "TANDEM_STORAGE_ROOT"}
        assert variables == {f"TANDEM_{name.replace('.', '_').upper()}" for name in one.settings(given)}


def test_no_cache_holds_back_what_is_measured_for_freshness() -> None:
    for one in (AT_LEAST_ONCE, EXACTLY_ONCE):
        caches = [
            one.settings(Resources(cores=2, memory="1g", fresh=fresh))["statestore.cache.max.bytes"] for fresh in (True, False)
        ]
        assert (caches[0], int(caches[1]) > 0) == ("0", True)
