"""The commands of docs/monitor.md on the real parts; its lineage is complete and fits the specification."""

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from tandem.infra.folders import ROOT
from tests.documented import File, steps
from tests.end_to_end.test_readme import typed

VALID = fastjsonschema.compile(json.loads((ROOT / "tests" / "infra" / "lineage" / "openlineage.json").read_text("utf-8")))


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_the_commands_in_the_page_give_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    try:
        for step in steps("monitor.md"):
            if isinstance(step, File):
                step.write(tmp_path)
                continue
            done = typed(step.line, tmp_path)
            assert done.returncode == 0, f"{step.line}\n{done.stdout}\n{done.stderr}"
            assert step.missing(done.stdout) is None, f"{step.line}\n{done.stdout}"
            if step.line.startswith("./tandem logs speed"):
                assert {line["part"] for line in json.loads(done.stdout)["lines"]} == {"speed"}
    finally:
        typed("./tandem down --project shop", tmp_path)
    logs = [line for file in (tmp_path / "shop" / ".tandem" / "logs").glob("*.log") for line in file.read_text().splitlines()]
    assert not [line for line in logs if line.startswith("{") and "event" not in json.loads(line)]
    told(tmp_path / "shop" / ".tandem")


def told(state: Path) -> None:
    events = [json.loads(line) for line in (state / "lineage.jsonl").read_text("utf-8").splitlines()]
    for event in events:
        VALID(event)
    by_job = {job: [event for event in events if event["job"]["name"] == job] for job in {e["job"]["name"] for e in events}}
    assert set(by_job) == {"archive.orders", "recompute.orders", "speed.orders"}
    for job, of in by_job.items():
        states = [event["eventType"] for event in of]
        assert (states[0], states[-1], {*states[1:-1]} <= {"RUNNING"}) == ("START", "COMPLETE", True), job
        assert len({event["run"]["runId"] for event in of}) == 1
    archive, recompute, speed = (by_job[f"{job}.orders"][-1] for job in ("archive", "recompute", "speed"))
    assert offsets(archive["inputs"][0]) == offsets(speed["inputs"][0]) == offsets(recompute["inputs"][0]) == 203
    assert [one["name"].rpartition("/")[2] for one in archive["outputs"]] == ["archive", "events", "quarantine"]
    assert all("version" in one["facets"] for one in (*archive["outputs"], *recompute["inputs"], *recompute["outputs"]))
    assert archive["outputs"][1]["name"] == recompute["inputs"][0]["name"]
    views = [one for event in (recompute, speed) for one in event["outputs"] if one["namespace"] == "shop"]
    assert sorted(view["name"] for view in views) == ["channels", "channels", "sales", "sales"]
    assert views[0]["facets"]["version"]["datasetVersion"] == "2"
    sales = next(view for view in views if view["name"] == "sales")
    made = sales["facets"]["columnLineage"]["fields"]
    assert [one["field"] for one in made["revenue"]["inputFields"]] == ["amount"]
    assert made["revenue"]["inputFields"][0]["name"] == recompute["inputs"][0]["name"]


def offsets(one: dict[str, Any]) -> int:
    ranges = one["facets"]["tandem_positions"]["ranges"]
    return sum(end - start for partitions in ranges.values() for pairs in partitions.values() for start, end in pairs)
