"""`tandem dashboard`: every panel asks the real server for rows that exist, in columns of the right type."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tandem.cli.__main__ import main
from tandem.cli.project.dashboard import DATASOURCE, dashboard
from tandem.cli.run import part_processes, server_port
from tandem.infra.process.background import Process, start_time
from tandem.infra.process.ports import unused
from tandem.infra.settings import Settings
from tests.serving.http.served import Served
from tests.serving.page.site import ZONED, hit
from tests.serving.world import NOON, World

TYPES: dict[str, type | tuple[type, ...]] = {
    "timestamp": str,
    "string": (str, bool, list, type(None)),
    "number": (int, float, str),
}


def test_every_panel_has_the_rows_of_its_view(tmp_path: Path) -> None:
    world = World(tmp_path, definitions=ZONED)
    world.append(0, *(hit(page, -minute, price="1.25") for minute, page in enumerate(("/", "/docs", None), 1)))
    world.trigger()
    found = dashboard(world.project, "shop", "http://127.0.0.1:8640")
    assert [panel["title"] for panel in found["panels"]] == list(world.project.views)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in found["panels"]}) == len(found["panels"])
    bounds = {"from": NOON - timedelta(days=40), "to": NOON + timedelta(days=40)}
    with Served(world).asker() as asker:
        for panel in found["panels"]:
            (target,) = panel["targets"]
            url = target["url"]
            for name, at in bounds.items():
                url = url.replace(f"${{__{name}:date:iso}}", at.isoformat().replace("+00:00", "Z"))
            address = urlsplit(url)
            answer = asker.get(f"{address.path}?{address.query}")
            assert answer.status_code == 200, (panel["title"], answer.text)
            rows: list[dict[str, Any]] = answer.json()[target["root_selector"]]
            assert rows, panel["title"]
            for row in rows:
                for column in target["columns"]:
                    assert isinstance(row[column["selector"]], TYPES[column["type"]]), (panel["title"], column)
                    if column["type"] == "number":
                        float(row[column["selector"]])
            # A chart has a time and something to draw.
            types = [column["type"] for column in target["columns"]]
            assert (panel["type"] == "timeseries") == ("timestamp" in types)
            assert "number" in types


def test_the_command_prints_what_grafana_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    World(tmp_path, definitions=ZONED)
    assert main(["dashboard", "--server", "https://tandem.example/", "--project", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {target["url"].partition("/views/")[0] for panel in found["panels"] for target in panel["targets"]} == {
        "https://tandem.example"
    }
    assert found["panels"][0]["datasource"] == DATASOURCE


def test_panels_ask_the_port_that_the_server_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The port of the running server counts, then the last choice of `up`, then the configuration."""
    World(tmp_path, definitions=ZONED)
    state = tmp_path / ".tandem"
    of = Settings(state=str(state))

    def asked() -> str:
        assert main(["dashboard", "--project", str(tmp_path)]) == 0
        printed = json.loads(capsys.readouterr().out)
        return str(printed["panels"][0]["targets"][0]["url"]).partition("/views/")[0]

    assert asked() == "http://127.0.0.1:8640"
    server_port.choose(of, chosen := unused(), print)
    assert asked() == f"http://127.0.0.1:{chosen}"
    # A server that announced its address: this process stands for it, under its own start time.
    (state / "run" / "serve.json").write_bytes(msgspec.json.encode(Process("serve", os.getpid(), start_time(os.getpid()), "")))
    part_processes.announce(state, part_processes.SERVER, address="http://127.0.0.1:9")
    assert asked() == "http://127.0.0.1:9"
