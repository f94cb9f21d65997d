"""`/alerts` has what `tandem alerts` prints of the views that a token may read, and no reason of a fault for restricted ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.serving.sinks.alerts.book import open_book
from tests.serving.http.served import Served
from tests.serving.sinks.alerts.test_edges_fold_to_what_holds import a_world, alert, follower, look, more
from tests.serving.world import World, hit


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An alert on each of two views: a receiver has refused an edge of the first, and the second has ended for a row."""
    made = a_world(tmp_path)
    made.append(0, hit("/a", 1, minute=1), hit("/b", 9, minute=1))
    made.trigger()
    for view, when in (("per_page", "mean > 3"), ("ever", "n > 0")):
        of = follower(made, alert(made, view, when, name=f"busy_{view}"))
        look(of)
        more(made, hit("/b", 0, minute=2), hit("/b", 0, minute=2), hit("/c", 9, minute=2))
        look(of)
    open_book(made.tables, "busy_ever").change(lambda document: replace(document, faults={"r": "https://a.example: refused"}))
    return made


async def got(served: Served, path: str, **rights: Any) -> Any:
    async with served.client(served.token(f"{path} {rights}", **rights)) as client:
        return await client.get(path)


@pytest.mark.anyio
async def test_alerts_equal_the_commands_output(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts", "--project", str(world.folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    served = Served(world)
    shown = (await got(served, "/alerts?limit=200")).json()

    def brief(edge: dict[str, Any]) -> dict[str, Any]:
        return {name: edge[name] for name in shown["recent"][0]}

    assert shown["recent"] == [brief(edge) for edge in printed["recent"]]
    assert {edge["kind"] for edge in shown["recent"]} > {"raised"}
    assert (
        [one["alert"] for one in shown["alerts"]] == [one["alert"] for one in printed["alerts"]] == ["busy_ever", "busy_per_page"]
    )
    for one, other in zip(shown["alerts"], printed["alerts"], strict=True):
        assert one["raised"] == [brief(edge) for edge in other["raised"]] != []
        assert (one["unsent"], one["faults"]) == (other["unsent"], other["faults"])
    assert len((await got(served, "/alerts?limit=1")).json()["recent"]) == 1


@pytest.mark.anyio
async def test_alerts_are_only_of_readable_views(world: World) -> None:
    served = Served(world)
    shown = (await got(served, "/alerts", views=["ever"])).json()
    assert {edge["view"] for edge in shown["recent"]} == {"ever"}
    assert [(one["alert"], one["faults"]) for one in shown["alerts"]] == [("busy_ever", {})]
    assert (await got(served, "/alerts", views=["of another project"])).json() == {"alerts": [], "recent": []}
    refused = await got(served, "/alerts", rows=["page=/a"])
    assert (refused.status_code, "whole rows" in refused.json()["detail"]) == (403, True)
