"""`verify`: replay the archive through both layers, and hold some keys against their events in plain Python. Every night."""

from airflow.sdk import DAG, CronTriggerTimetable
from tandem_dags.configuration import configuration
from tandem_dags.defaults import common
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="verify",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(CONFIGURED.verify, timezone="UTC") if CONFIGURED.verify else None,
    **common(CONFIGURED),
):
    # What differs will differ at the next try, too, and a whole replay is dear.
    Tandem(task_id="verify", arguments=["verify", "--all"], keep=["agree", "publication", "release"], retries=0)
