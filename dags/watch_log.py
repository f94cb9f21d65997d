"""`watch_log`: fail, and so alert, before the log's retention may delete records that are not archived. Every ten minutes.

`kafka.warn_hours` in tandem.toml sets how many hours before. To fix it, run `tandem archive`: start a run of `recompute`.
"""

from typing import Any

from airflow.sdk import DAG, Context
from airflow.sdk.exceptions import AirflowException

from tandem_dags.command import Done
from tandem_dags.configuration import configuration
from tandem_dags.defaults import at, common
from tandem_dags.task import STATUS, Tandem

CONFIGURED = configuration()


class WatchLog(Tandem):
    """Fails if a source's records were lost or may be lost soon; its result is how long the others are safe."""

    def result(self, done: Done, context: Context) -> dict[str, Any]:  # noqa: ARG002 - as the base has it
        """The remaining seconds and offsets, by source."""
        told = {name: source["until_loss"] for name, source in done.document["sources"].items()}
        unknown = [
            f"{name}: {done.document['sources'][name]['log_end_problem'] or 'the broker does not report it'}"
            for name, one in told.items()
            if one is None
        ]
        warned = [f"{name}: {one['warning']}" for name, one in told.items() if one and one["warning"]]
        if warned or unknown:
            raise AirflowException("; ".join([*warned, *unknown]))
        return {name: {"seconds": one["seconds"], "offsets": one["offsets"]} for name, one in told.items() if one}


with DAG(
    dag_id="watch_log",
    doc_md=__doc__,
    schedule=at(CONFIGURED.watch_log),
    **common(CONFIGURED),
):
    WatchLog(task_id="watch_log", arguments=["status"], expected=STATUS, retries=1)
