"""The commands in the pages about Airflow, and the demo with batch runs by Airflow."""

import json
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.dags.local_airflow import Local, needs_airflow, wait_for
from tests.documented import Command, File, steps
from tests.end_to_end.test_demo import assert_nothing_is_left, demo
from tests.end_to_end.test_readme import typed

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(1800), needs_airflow]
PAGES = ("schedule.md", "backfill.md", "reprocess.md")


def outcomes(local: Local, dag: str) -> dict[str, str] | None:
    """How the runs of a DAG are, by their ids, once none goes on."""
    found = {run["dag_run_id"]: run["state"] for run in local.runs(dag)}
    return found if set(found.values()) <= {"success", "failed"} else None


def test_the_commands_in_the_pages_work(tmp_path: Path) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    ended = []
    try:
        for step in chain.from_iterable(map(steps, PAGES)):
            assert isinstance(step, (File, Command))
            if isinstance(step, File):
                continue
            done = typed(step.line, tmp_path)
            assert done.returncode == 0, f"{step.line}\n{done.stdout}\n{done.stderr}"
            words = step.line.split()
            dag = next((word for word in words if word in ("recompute", "recompute_days", "reprocess")), None)
            if dag is not None:
                found = wait_for(f"the runs of {dag} to end", partial(outcomes, Local(tmp_path / "my_shop"), dag))
                assert set(found.values()) == {"success"}, dag
                ended.append((dag, found))
    finally:
        typed("./tandem down --project my_shop", tmp_path)
    assert [dag for dag, _ in ended] == ["recompute", "recompute_days", "reprocess"]
    # The schedule, which asks for no day, has a run of its own.
    assert len([run for run in dict(ended)["recompute_days"] if run.startswith("backfill__")]) == 3


def test_the_demos_answers_are_exact_with_airflow(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--json", "--airflow", "--events=8000") as child:
        out, _ = child.communicate(timeout=1700)
    assert child.returncode == 0, (tmp_path / "said").read_text()
    document = json.loads(out)
    assert [(check["name"], check["differ"]) for check in document["checks"]] == [("tail", 0), ("batch", 0), ("restart", 0)]
    assert all(check["answers"] > 0 for check in document["checks"])
    assert len(document["figures"]["durations_s"]["airflow"]) == 3
    assert_nothing_is_left(tmp_path)
