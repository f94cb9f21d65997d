"""Projects on the clusters of these tests: a standalone one, and YARN."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.cli.demo import other_host, spark_cluster
from tandem.cli.demo.other_host import OtherHost
from tandem.infra import kafka
from tests.executors.gated_shop import GatedShop, shop_with_gates
from tests.executors.yarn_nodes import yarn_nodes


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[spark_cluster.Cluster]:
    """A cluster whose workers see the files of this host: its gates and its tables are there."""
    monkeypatch.setattr(other_host, "find", lambda *_: OtherHost("environment", ()))
    with spark_cluster.own_cluster(os.environ, tmp_path / "cluster", tmp_path, {}) as running:
        yield running


@pytest.fixture(params=["standalone", "yarn"])
def shop(request: pytest.FixtureRequest, broker: kafka.BrokerConnection, tmp_path: Path) -> Iterator[GatedShop]:
    """A project on either cluster, with two executors."""
    if request.param == "standalone":
        running = request.getfixturevalue("cluster")
        yield shop_with_gates(tmp_path, running.settings | {"TANDEM_SPARK_CORES_MAX": "2"}, broker)
    else:
        with yarn_nodes(tmp_path / "yarn") as settings:
            yield shop_with_gates(tmp_path, settings, broker)
