"""`verify`: replay the archive through both layers, and hold some keys against their events in plain Python. Every night."""

from airflow.sdk import DAG

from tandem_dags.configuration import configuration
from tandem_dags.defaults import at, common
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="verify",
    doc_md=__doc__,
    schedule=at(CONFIGURED.verify),
    **common(CONFIGURED),
):
    # A whole replay is dear, and what differs will differ at the next try, too: one more is for a worker that was lost.
    Tandem(task_id="verify", arguments=["verify", "--all"], keep=["agree", "publication", "release"], retries=1)
