"""`maintain`: make few files of many and free what no kept publication needs. Every day."""

from airflow.sdk import DAG, CronTriggerTimetable
from tandem_dags.configuration import configuration
from tandem_dags.defaults import common
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="maintain",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(CONFIGURED.maintain, timezone="UTC") if CONFIGURED.maintain else None,
    **common(CONFIGURED),
):
    Tandem(task_id="maintain", arguments=["maintain"], keep=["retained", "freed"])
