"""The pages on serving: their commands work, their settings exist, and the table of docs/serve.md has every route."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka, settings
from tandem.infra.folders import ROOT
from tandem.serving.access.oidc import provider
from tandem.serving.client.server_client import Refused, client
from tandem.serving.http.requests.gate import gated
from tests.documented import DOCS, Command, steps
from tests.serving.http.served import Served, serving
from tests.serving.world import DEFINITIONS, World, hit
from tests.stack import new_topic, shared_kafka

PAGES = ("serve.md", "tokens.md", "send-events.md", "operate.md")
TEXT = {page: (DOCS / page).read_text("utf-8") for page in PAGES}
PYTHON = re.findall(r"^```python\n(.*?)^```$", "\n".join(TEXT.values()), re.MULTILINE | re.DOTALL)
SALES = """
sales = View(
    source=hits,
    keys={"city": "upper(page)"},
    window=tumbling(hours=1),
    measures={"orders": count(), "revenue": total("price"), "customers": approx_count_distinct("bytes")},
)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    definitions = DEFINITIONS.replace("SOURCES =", f"{SALES}\nSOURCES =").replace("VIEWS = (", "VIEWS = (sales, ")
    made = World(tmp_path_factory.mktemp("world"), definitions=definitions)
    made.append(0, *(hit("oslo", n, minute=-240) for n in range(3)), hit(None, 1), hit("rome", 5))
    made.trigger()
    return made


def commands() -> list[str]:
    return [step.line for page in PAGES for step in steps(page) if isinstance(step, Command)]


def test_the_tokens_commands_are_as_shown(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [line.removeprefix("./tandem ").replace("my_shop", str(world.folder)) for line in commands() if " token " in line]
    assert len(shown) == 3
    for line in shown:
        assert main(line.split()) == 0, capsys.readouterr().err
    assert "desk" in capsys.readouterr().out


def asked_as_curl(line: str, token: str) -> str:
    """The body that the page's curl gets: a GET, or a POST of what -d gives, with the headers of -H."""
    words = iter(shlex.split(line.replace("$TOKEN", token))[1:])
    headers, content, address = {}, None, ""
    for word in words:
        match word:
            case "-s":
                pass
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                content = next(words)
            case _:
                assert not word.startswith("-"), f"{word} is new in the page"
                address = word
    answer = httpx.request("GET" if content is None else "POST", address, headers=headers, content=content, timeout=60)
    assert answer.status_code in (200, 202), answer.text
    return answer.text


def test_the_requests_in_the_page_are_answered(world: World) -> None:
    shutil.rmtree(world.tables.control("tokens"), ignore_errors=True)
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(world.folder), "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]

        def said(line: str) -> str:
            return asked_as_curl(line.replace("http://127.0.0.1:8640", address), secret)

        token, *asked = (line for line in commands() if line.startswith(("TOKEN=", "curl ")) and "/sources/" not in line)
        assert token == "TOKEN=$(cat my_shop/.tandem/access/first.token)"
        secret = (world.folder / ".tandem" / "access" / "first.token").read_text().strip()
        views, view, rows, lines, row, looked, selected, status, history, audits, quarantined, retried, plan, runs = map(
            said, asked
        )
        assert "sales" in [one["name"] for one in json.loads(views)["views"]]
        assert json.loads(view)["keys"] == ["city"]
        assert [(one["city"], one["orders"]) for one in json.loads(rows)["rows"]] == [("OSLO", 3)]
        assert lines.splitlines()[0] == '"city","window_start","window_end","window_state","orders"'
        assert json.loads(row)["row"]["revenue"] == "0.30"
        found: dict[str, Any] = json.loads(looked)
        assert ([one["city"] for one in found["rows"]], found["absent"]) == (["OSLO", None], [])
        orders = {one["city"]: one["orders"] for one in json.loads(selected)["rows"]}
        assert orders == {"OSLO": 3, "ROME": 1, None: 1}
        assert json.loads(status)["views"]["sales"]["problem"] is None
        assert [one["kind"] for one in json.loads(history)["publications"]] == ["initial"]
        assert json.loads(audits) == {"audits": []}
        assert json.loads(quarantined) == {"source": "hits", "counts": {}, "rows": [], "next": None}
        assert json.loads(retried)["tried"] == 0
        assert [one["id"] for one in json.loads(runs)["runs"]] == [json.loads(plan)["run"]]
    finally:
        process.kill()
        process.communicate()


def test_the_python_in_the_page_runs(world: World) -> None:
    code, _ = PYTHON
    served = Served(world)
    with serving(served) as address:
        known = {"token": served.token("python"), "datetime": datetime, "UTC": UTC}
        exec(code.replace("http://127.0.0.1:8640", address), known)


@pytest.mark.broker
def test_events_that_the_page_sends_are_in_the_log(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    """To the source of a new project, whose speed layer is not there: an answer is not as fresh as requested."""
    topic, address = new_topic(broker), broker.address
    definitions = (
        (ROOT / "cli" / "project" / "template" / "definitions.py")
        .read_text()
        .replace('orders = Source(topic="orders"', f'orders = Source(topic="{topic.name}"')
    )
    world = World(tmp_path, definitions=definitions)
    served = Served(world, kafka=shared_kafka(address))
    with serving(served) as url:
        secret = served.token("sender", may=("read", "ingest"))
        described, sent = (
            json.loads(asked_as_curl(line.replace("http://127.0.0.1:8640", url), secret))
            for line in commands()
            if line.startswith("curl ") and "/sources/" in line
        )
        assert described["fields"][0]["name"] == "order_id"
        (place,) = sent["records"]
        assert json.loads(sent["min_position"]) == {topic.id: {str(place["partition"]): place["offset"] + 1}}
        known = {"token": secret, "client": client}
        with pytest.raises(Refused, match="not as fresh as requested"):
            exec(PYTHON[1].replace("http://127.0.0.1:8640", url), known)
    assert sum(kafka.ends(broker, [topic]).values()) == 2


def test_the_settings_in_the_page_exist(tmp_path: Path) -> None:
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", TEXT["tokens.md"], re.MULTILINE | re.DOTALL)
    (tmp_path / "tandem.toml").write_text(toml)
    found = provider(settings.load(tmp_path, {}).serving.oidc)
    assert found is not None
    assert found.rights["oslo"].rows == ("city=OSLO",)


def test_the_table_of_the_page_has_every_route(world: World) -> None:
    for route in gated(Served(world).app):
        path = route.path_format.replace("{view}", "VIEW").replace("{source}", "SOURCE").replace("{id}", "RUN")
        assert path in TEXT["serve.md"]
