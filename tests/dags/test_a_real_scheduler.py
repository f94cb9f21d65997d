"""A local Airflow with its scheduler works: on schedule, over partitions, after a kill, and repeatedly.

However often and in whatever order a task is tried, what is published is the same: each test ends by asking that.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from tandem.infra.folders import ROOT
from tests.dags.local_airflow import Local, made, needs_airflow, wait_for, yesterday

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(1800), needs_airflow]

# Views without quantiles, whose sketches are made of other pieces by each fold.
EXACT = ("status_counts", "user_bytes", "totals", "local_days", "local_months", "visits")
SETTINGS = 'recompute = "* * * * *"\nfull = ""\nverify = ""\nmaintain = ""\nwatch_log = ""\n'
# A DAG of one's own, which waits for what its run is told. Between two looks there is time enough: a task that is queued again
# before the scheduler has heard of its last look counts as killed.
WAITS = """
from airflow.sdk import DAG
from tandem_dags.published import Published

with DAG(dag_id="waits", schedule=None, is_paused_upon_creation=False):
    Published(task_id="time", view="page_traffic", time="{{ dag_run.conf['time'] }}", poke_interval=20)
    Published(task_id="position", view="totals", position="{{ dag_run.conf['position'] | tojson }}", poke_interval=20)
"""


# Views whose windows a UTC day cuts, or does not select.
LOCAL = """
from tandem import calendar, session

local_days = View(source=requests, window=calendar("day", zone="Europe/Berlin"), measures={"requests": count()})
local_months = View(source=requests, window=calendar("month", zone="Europe/Berlin"), measures={"requests": count()})
visits = View(source=requests, keys={"user": '"user"'}, window=session(minutes=1), measures={"requests": count()})
VIEWS = (*VIEWS, local_days, local_months, visits)
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    one = made(tmp_path_factory.mktemp("airflow") / "web", settings=SETTINGS)
    definitions = one.project / "definitions.py"
    definitions.write_text(definitions.read_text() + LOCAL)
    (one.project / "dags").mkdir()
    shutil.copy(ROOT / "examples" / "airflow" / "daily_report.py", one.project / "dags")
    (one.project / "dags" / "waits.py").write_text(WAITS)
    # A worker that was killed is found sooner.
    os.environ["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"] = "30"
    try:
        document = one.tandem("up", "--airflow")
        assert [part["name"] for part in document["processes"]] == [
            "broker",
            "speed",
            "airflow-api",
            "airflow-dags",
            "airflow-scheduler",
            "supervisor",
        ]
        assert document["addresses"]["airflow"].startswith("http://127.0.0.1:")
        assert one.tandem("up", "--airflow") == document
        assert one.tandem("status")["processes"] == document["processes"]
        send(one, 1000)
        yield one
    finally:
        del os.environ["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"]
        one.tandem("down")


def send(local: Local, until: int) -> None:
    """Samples up to this one; the same ones for every test."""
    known = json.loads((local.project / "sent").read_text()) if (local.project / "sent").exists() else 0
    base = (yesterday() + timedelta(hours=8)).isoformat()
    local.tandem("generate", f"--events={until}", f"--skip={known}", "--seed=1", f"--base={base}", "--rate=5000")
    (local.project / "sent").write_text(str(until))


def published(local: Local) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The cuts of what is live, and the answers of its batch views."""
    rows = [local.tandem("query", view, "--layer", "batch")["rows"] for view in EXACT]
    return newest(local)["cuts"], rows


def newest(local: Local) -> dict[str, Any]:
    found: dict[str, Any] = local.tandem("history", "--limit", "1")["publications"][0]
    return found


def pause(local: Local, dag: str, *, paused: bool) -> None:
    local.ask("PATCH", f"/dags/{dag}", {"is_paused": paused})


def quiet(local: Local) -> None:
    """No scheduled run goes on: those of a paused DAG that have begun would wait for ever."""
    pause(local, "recompute", paused=True)
    for run in local.runs("recompute"):
        if run["state"] in ("queued", "running"):
            local.ask("PATCH", f"/dags/recompute/dagRuns/{quote(run['dag_run_id'], safe='')}", {"state": "failed"})
    wait_for("its commands to end", lambda: not commands(local, "archive") and not commands(local, "recompute"))


def commands(local: Local, *words: str) -> list[psutil.Process]:
    """The `tandem` processes of this project with these words."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            line = process.cmdline()
            if "cli" in line and str(local.project) in line and all(word in line for word in words):
                found.append(process)
    return found


def test_a_scheduled_recompute_publishes_and_emits_events(local: Local) -> None:
    run = wait_for(
        "a scheduled run that succeeded",
        lambda: next((one for one in local.runs("recompute") if one["state"] == "success"), None),
    )
    assert run["run_type"] == "scheduled"
    quiet(local)
    told = local.events("/page_traffic")
    live = newest(local)
    assert live["cuts"] == told[-1]["extra"]["cuts"]
    assert (live["publication"], live["release"]) == (told[-1]["extra"]["publication"], told[-1]["extra"]["release"])
    assert told[-1]["partition_key"] is None
    assert {event["partition_key"][-6:] for event in local.events("/hours")} == {":00:00"}
    (totals,) = local.tandem("query", "totals", "--layer", "batch")["rows"]
    # The generator makes some samples that are no events.
    assert 900 < totals["requests"] <= 1000
    log = local.log("recompute", run["dag_run_id"], "recompute")
    assert "exit code 0" in log
    assert set(local.tasks("recompute", run["dag_run_id"])) == {"archive", "recompute", "maintain"}


def test_a_users_dag_runs_for_a_publication(local: Local) -> None:
    run = wait_for("a run of report", lambda: next((one for one in local.runs("report") if one["state"] == "success"), None))
    assert run["run_type"] == "asset_triggered"
    assert "publication " in local.log("report", run["dag_run_id"], "report")


def test_a_sensor_waits_until_a_view_is_published_past_a_time_and_a_position(local: Local) -> None:
    cut = newest(local)["cuts"]["requests"]
    ((topic, partitions),) = cut.items()

    def state(run: str, task: str) -> str:
        found: str = local.tasks("waits", run)[task]["state"]
        return found

    # Events begin at eight and are about one a second.
    early, late = (yesterday() + timedelta(hours=hours) for hours in (8, 23))
    local.trigger("waits", "there", time=early.isoformat(), position=cut)
    local.trigger("waits", "ahead", time=late.isoformat(), position={topic: {"0": partitions["0"] + 10**6}})
    wait_for("what is there already", lambda: local.ended("waits", "there"))
    assert local.ended("waits", "there") == "success"
    for task in ("time", "position"):
        wait_for(f"a look at the {task} that is not there yet", lambda: state("ahead", task) == "up_for_reschedule")  # noqa: B023
    assert local.ended("waits", "ahead") is None
    local.ask("PATCH", "/dags/waits/dagRuns/ahead", {"state": "failed"})


def test_a_backfill_rebuilds_each_day_once_and_cleared_again_changes_nothing(local: Local) -> None:
    before = published(local)
    days = [(yesterday() + timedelta(days=n)).strftime("%Y-%m-%d") for n in (-1, 0, 1)]
    local.airflow("backfill", "create", "--dag-id", "recompute_days", "--from-date", days[0], "--to-date", days[-1])

    def done() -> dict[str, str] | None:
        runs = {run["partition_key"]: run for run in local.runs("recompute_days") if run["run_type"] == "backfill"}
        ended = {run["state"] for run in runs.values()} <= {"success", "failed"}
        return {key: run["dag_run_id"] for key, run in runs.items()} if len(runs) == len(days) and ended else None

    runs = wait_for("a backfill of three days", done)
    assert sorted(runs) == days
    for day, run in runs.items():
        assert local.ended("recompute_days", run) == "success"
        assert f"tandem recompute --from {day}T00:00:00+00:00 --to " in local.log("recompute_days", run, "recompute")
    assert {event["partition_key"] for event in local.events("/page_traffic/days")} == set(days)
    assert published(local) == before
    wait_for("a run of daily_report for each", lambda: set(days) <= {run["partition_key"] for run in local.runs("daily_report")})

    local.clear("recompute_days", runs[days[1]])
    wait_for("the cleared day", lambda: local.tasks("recompute_days", runs[days[1]])["recompute"]["try_number"] == 2)
    wait_for("the cleared day to end", lambda: local.ended("recompute_days", runs[days[1]]) == "success")
    assert published(local) == before


def test_hours_roll_up_to_days(local: Local) -> None:
    day = yesterday() - timedelta(days=30)
    (asset,) = [one for one in local.ask("GET", "/assets?limit=1000")["assets"] if one["uri"].endswith("/hours")]

    def tell(hour: int) -> None:
        key = (day + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%S")
        local.ask("POST", "/assets/events", {"asset_id": asset["id"], "partition_key": key})

    def whole() -> list[dict[str, Any]]:
        return [run for run in local.runs("published_days") if run["partition_key"] == f"{day:%Y-%m-%d}"]

    for hour in range(23):
        tell(hour)
    assert whole() == []
    tell(23)
    wait_for("the day's run", lambda: [run for run in whole() if run["state"] == "success"])
    (event,) = [one for one in local.events("/totals/days") if one["partition_key"] == f"{day:%Y-%m-%d}"]
    assert event["extra"]["publication"] == newest(local)["publication"]


def test_a_task_whose_worker_is_killed_is_done_by_another(local: Local) -> None:
    before, live = published(local), newest(local)["publication"]
    local.trigger("recompute_full", "killed")
    (command,) = wait_for("the command to run", lambda: commands(local, "recompute", "full"))
    task = command.parent()
    assert task is not None
    worker = task.parent()
    assert worker is not None
    assert "LocalExecutor" in " ".join(worker.cmdline())
    os.kill(worker.pid, signal.SIGKILL)
    wait_for("task and command to end", lambda: not command.is_running() and not task.is_running(), seconds=60)
    wait_for("another try", lambda: local.ended("recompute_full", "killed"))
    assert local.ended("recompute_full", "killed") == "success"
    assert local.tasks("recompute_full", "killed")["recompute"]["try_number"] == 2
    assert newest(local)["publication"] == live + 1
    assert published(local) == before


@pytest.mark.parametrize("answer", ["Reject", "Approve"])
def test_reprocess_asks_a_person_and_follows_the_answer(local: Local, answer: str) -> None:
    live, run = newest(local)["release"], f"asked-{answer}"
    definitions = local.project / "definitions.py"
    text = definitions.read_text()
    if answer == "Reject":
        text = text.replace("tumbling(minutes=15)", "tumbling(minutes=30)")
        definitions.write_text(text)
    local.trigger("reprocess", run, approval="always", gate="", why="wider windows")
    wait_for("the question", lambda: local.tasks("reprocess", run)["approve"]["state"] == "awaiting_input")
    # Nobody answers within a moment. An answer before the scheduler has heard that the task waits counts as a kill.
    wait_for("the scheduler to know it", lambda: local.let_go("reprocess", run, "approve"))
    note = local.ask("GET", f"/dags/reprocess/dagRuns/{run}")["note"]
    assert "view route_latency: changed, breaking" in note
    assert "is ready" in note
    assert "view route_latency: changed, breaking" in local.log("reprocess", run, "plan")
    local.ask(
        "PATCH",
        f"/dags/reprocess/dagRuns/{run}/taskInstances/approve/-1/hitlDetails",
        {"chosen_options": [answer], "params_input": {}},
    )
    wait_for("the end of reprocess", lambda: local.ended("reprocess", run))
    assert local.log("reprocess", run, "approve").count("Pre Execute") == 2, "the answer was not looked at"
    if answer == "Reject":
        assert local.ended("reprocess", run) == "failed"
        assert local.tasks("reprocess", run)["retire"]["state"] == "success"
        assert newest(local)["release"] == live
        assert local.tandem("status")["standing"] == []
        return
    assert local.ended("reprocess", run) == "success"
    assert local.tasks("reprocess", run)["retire"]["state"] == "skipped"
    now = newest(local)
    assert (now["kind"], now["why"]) == ("promote", "wider windows")
    assert now["release"] > live
    # Again, with nothing to do; and the promotion alone, after it had its effect.
    local.trigger("reprocess", "again", gate="")
    wait_for("the end of it", lambda: local.ended("reprocess", "again"))
    assert local.tasks("reprocess", "again")["plan"]["state"] == "skipped"
    local.clear_task("reprocess", run, "promote")
    wait_for("another promotion", lambda: local.tasks("reprocess", run)["promote"]["try_number"] == 2)
    wait_for("its end", lambda: local.ended("reprocess", run))
    assert newest(local) == now


def test_secrets_are_in_no_log_and_stored_files_are_private(local: Local) -> None:
    home = local.project / ".tandem" / "airflow"
    hidden = [json.loads((home / "passwords.json").read_text())["admin"], *json.loads((home / "keys.json").read_text()).values()]
    assert len(hidden) == 4
    logs = [*(local.project / ".tandem" / "logs").glob("airflow-*.log"), *(home / "logs").rglob("*.log")]
    assert len(logs) > 5
    assert [log for log in logs for one in hidden if one in log.read_text(errors="replace")] == []
    assert home.stat().st_mode & 0o077 == 0


def test_everything_listens_only_on_loopback(local: Local) -> None:
    pids = {part["pid"] for part in local.tandem("status")["processes"] if part["name"].startswith("airflow")}
    family = {child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)} | pids
    listening = {
        connection.laddr.ip
        for pid in family
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_dag_test_runs_recompute_in_one_process(local: Local) -> None:
    send(local, 1600)
    before = newest(local)["publication"]
    local.airflow("dags", "test", "recompute")
    assert newest(local)["publication"] == before + 1


def test_dag_test_runs_reprocess_in_one_process(local: Local) -> None:
    definitions = local.project / "definitions.py"
    definitions.write_text(definitions.read_text().replace("tumbling(minutes=30)", "tumbling(minutes=20)"))
    conf = json.dumps({"gate": "", "approval": "never", "why": "dag.test"})
    local.airflow("dags", "test", "reprocess", "--conf", conf)
    live = newest(local)
    assert (live["kind"], live["why"]) == ("promote", "dag.test")
