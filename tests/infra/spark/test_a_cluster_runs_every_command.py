"""On a cluster whose workers see nothing of this host, with tables in a bucket: archive, recompute, apply, promote and verify."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.demo import traces
from tandem.cli.demo.bucket import own_bucket
from tandem.cli.demo.spark_cluster import own_cluster
from tandem.infra import kafka
from tandem.infra.folders import child_environment
from tests.stack import environ, kafka_toml, new_topic, produce

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1200)]

SALES = 90
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, maximum, total


class Sale(Event):
    at: datetime
    shop: str
    cents: int


sales = Source(topic="TOPIC", event=Sale, event_time="at")
per_shop = View(source=sales, keys={"shop": "shop"}, measures={"n": count(), "cents": total("cents")})
SOURCES = (sales,)
VIEWS = (per_shop,)
"""

Run = Callable[..., Any]
"""A command on the cluster; the document that it prints."""


@pytest.fixture
def run(broker: kafka.BrokerConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    for name in CREDENTIALS:
        monkeypatch.setenv(name, "replaced by those of the bucket")
    project, state, topic = tmp_path / "project", tmp_path / "state", new_topic(broker)
    project.mkdir()
    (project / "tandem.toml").write_text(f"state = {json.dumps(str(state))}\n{kafka_toml(broker)}")
    (project / "definitions.py").write_text(DEFINITIONS.replace("TOPIC", topic.name))
    for number in range(SALES):
        sale = {"at": "2026-03-01T12:00:00+00:00", "shop": f"shop {number % 3}", "cents": number}
        produce(broker, topic, [json.dumps(sale).encode()], partition=number % 2)
    with own_bucket(os.environ, tmp_path / "s3.log") as bucket:
        credentials = {name: bucket[name] for name in CREDENTIALS}
        with own_cluster(os.environ, tmp_path / "cluster", project, credentials) as cluster:
            variables = {**child_environment(environ()), **bucket, **cluster.settings}

            def command(*words: str) -> Any:
                line = [sys.executable, "-m", "tandem.cli", *words, "--project", str(project), "--json"]
                done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False, timeout=900)
                assert done.returncode == 0, f"{words}\n{done.stderr}"
                assert not any(secret in done.stdout + done.stderr for secret in credentials.values())
                return json.loads(done.stdout)

            yield command
            found = [*traces.in_files(state, credentials.values()), *traces.in_files(tmp_path / "cluster", credentials.values())]
            assert [*found, *traces.in_command_lines(credentials.values())] == []


def test_every_command_computes_there_what_it_computes_here(run: Run, tmp_path: Path) -> None:
    shops = [range(shop, SALES, 3) for shop in range(3)]

    def rows() -> dict[str, tuple[int, int]]:
        return {row["shop"]: (row["n"], row["cents"]) for row in run("query", "per_shop")["rows"]}

    assert run("archive")["sources"]["sales"]["events"] == SALES
    run("recompute")
    assert rows() == {f"shop {shop}": (len(sold), sum(sold)) for shop, sold in enumerate(shops)}

    file = tmp_path / "project" / "definitions.py"
    file.write_text(file.read_text().replace('total("cents")', 'maximum("cents")'))
    run("apply", "--max-lag", str(SALES))
    run("promote", "--max-lag", str(SALES))
    assert run("verify", "--all")["agree"]
    run("maintain")
    assert rows() == {f"shop {shop}": (len(sold), max(sold)) for shop, sold in enumerate(shops)}
