"""The demo's batch runs by Airflow: its scheduler starts `recompute` every minute, and the demo waits for a run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tandem.infra.airflow import local_airflow
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError

DAG: Final = "recompute"
ENVIRON: Final = {
    # The demo needs only `recompute`; the other DAGs would take its two cores.
    "TANDEM_AIRFLOW_RECOMPUTE": "* * * * *",
    "TANDEM_AIRFLOW_FULL": "",
    "TANDEM_AIRFLOW_VERIFY": "",
    "TANDEM_AIRFLOW_MAINTAIN": "",
    "TANDEM_AIRFLOW_WATCH_LOG": "",
    "TANDEM_AIRFLOW_PORT": "0",
}
_FAILED: Final = "failed"


class RunFailed(TandemError, code="demo-run-failed"):
    """A run of the demo's DAG failed for good."""


@dataclass(frozen=True)
class Scheduler:
    """The Airflow of the demo's state folder, polled through its REST API."""

    settings: Settings

    def published(self, since: datetime) -> dict[str, Any] | None:
        """A scheduled run that began at or after a time and succeeded; None while there is none.

        Raises RunFailed if one failed.
        """
        begun = [run for run in self._runs() if run["start_date"] and datetime.fromisoformat(run["start_date"]) >= since]
        if failed := [run for run in begun if run["state"] == _FAILED]:
            raise RunFailed(f"{DAG} failed in Airflow: run {failed[0]['dag_run_id']}; its log is under {self._logs()}")
        return next((run for run in begun if run["state"] == "success" and run["run_type"] == "scheduled"), None)

    def told(self) -> str:
        """Its newest run in a few words, and the address of its web page."""
        runs = sorted(self._runs(), key=lambda run: str(run["start_date"] or ""))
        last = f"its run {runs[-1]['dag_run_id']}: {runs[-1]['state']}" if runs else "no run yet"
        return f"Airflow at {local_airflow.address(self.settings)}, {last}"

    def _runs(self) -> list[dict[str, Any]]:
        found = local_airflow.address(self.settings)
        if found is None:
            raise RunFailed("Airflow has ended unexpectedly")
        listed = local_airflow.ask(
            found, local_airflow.passwords(self.settings), f"/dags/{DAG}/dagRuns?limit=100&order_by=-run_after"
        )
        runs: list[dict[str, Any]] = listed["dag_runs"]
        return runs

    def _logs(self) -> str:
        return str(local_airflow.home(self.settings) / "logs")
