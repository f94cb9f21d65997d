"""Every DAG parses quickly in the installed Airflow, without a warning; so does the example of a user's DAG."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tandem.infra.airflow import local_airflow, packages
from tandem.infra.folders import ROOT
from tests.dags.local_airflow import needs_airflow

# What a DAG processor does with a folder of files, in a process of its own, without the platform's packages.
PARSE = """
import json, sys
from pathlib import Path
import airflow.models
from airflow.dag_processing.dagbag import DagBag
found = {}
for folder in sys.argv[1:]:
    bag = DagBag(folder, bundle_path=Path(folder), bundle_name="tested")
    found[folder] = {
        "dags": {name: [task.task_id for task in dag.tasks] for name, dag in bag.dags.items()},
        "errors": bag.import_errors,
        "warnings": bag.captured_warnings,
        "seconds": {one.file: one.duration.total_seconds() for one in bag.dagbag_stats},
    }
    from airflow.serialization.serialized_objects import DagSerialization
    for dag in bag.dags.values():
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
print("found " + json.dumps(found))
"""
SECONDS = 2


@needs_airflow
@pytest.mark.timeout(300)
def test_every_dag_parses_without_a_warning(tmp_path, record_property) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database = f"[database]\nsql_alchemy_conn = sqlite:///{home}/airflow.db\n"
    (home / "airflow.cfg").write_text(f"[core]\nload_examples = False\n{database}[logging]\nlogging_level = ERROR\n")
    variables = {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT / "dags"), "PATH": os.environ["PATH"]}
    python = packages.environment({}).command("python")
    folders = [str(ROOT / "dags"), str(ROOT / "examples" / "airflow")]
    done = subprocess.run(
        [str(python), "-c", PARSE, *folders], env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.rpartition("found ")[2])
    for folder in folders:
        assert (found[folder]["errors"], found[folder]["warnings"]) == ({}, {})
        record_property("seconds to parse", found[folder]["seconds"])
        assert sum(found[folder]["seconds"].values()) < 10 * SECONDS
    assert found[folders[0]]["dags"] == {
        "recompute": ["archive", "recompute", "maintain"],
        "recompute_full": ["recompute"],
        "recompute_days": ["recompute"],
        "published_days": ["published"],
        "reprocess": ["plan", "apply", "gate", "approve", "promote", "published", "retire"],
        "verify": ["verify"],
        "maintain": ["maintain"],
        "watch_log": ["watch_log"],
    }
    assert set(found[folders[0]]["dags"]) == local_airflow.OUR_DAGS
    assert set(found[folders[1]]["dags"]) == {"report", "daily_report", "morning_report"}


# What a task is given for the end of the run before, and for when this one was due.
HOURS = """
from datetime import datetime
import lazy_object_proxy, pendulum
from tandem_dags.progress import ended
due = pendulum.datetime(2026, 11, 1, 4, 30)
before = lazy_object_proxy.Proxy(lambda: pendulum.datetime(2026, 11, 1, 2, 10))
nothing = lazy_object_proxy.Proxy(lambda: None)
plain = datetime.fromisoformat("2026-11-01T04:30:00+00:00")
print([ended(since, until) for since in (before, nothing, None) for until in (due, plain)])
"""


@needs_airflow
def test_hours_are_computed_from_airflows_times() -> None:
    python = packages.environment({}).command("python")
    done = subprocess.run(
        [str(python), "-c", HOURS], env={"PYTHONPATH": str(ROOT / "dags")}, capture_output=True, text=True, check=False
    )
    two, one = ["2026-11-01T02:00:00", "2026-11-01T03:00:00"], ["2026-11-01T03:00:00"]
    assert done.stdout.strip() == str([two, two, one, one, one, one]), done.stderr


# What the recipe's task makes of the ends of a command.
JUDGED = """
from tandem_dags.command import Done
task = Careful(task_id="careful", arguments=["recompute"])
for code, document in ((0, {}), (1, {"code": "gap-not-accepted"}), (1, {"code": "broker-unavailable"}), (-9, {}), (2, {})):
    try:
        print(task.judge(Done(code, document)))
    except Exception as error:
        print(type(error).__name__)
"""


@needs_airflow
def test_a_task_decides_by_the_code_of_its_commands_error(tmp_path: Path) -> None:
    """As docs/errors.md says."""
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    (recipe,) = (block for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "Careful" in block)
    python = packages.environment({}).command("python")
    variables = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "dags"), "PATH": os.environ["PATH"]}
    done = subprocess.run([str(python), "-c", recipe + JUDGED], env=variables, capture_output=True, text=True, check=False)
    again, never = "AirflowException", "AirflowFailException"
    assert done.stdout.splitlines()[-5:] == ["None", never, again, again, never], done.stderr
