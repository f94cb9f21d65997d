"""`reprocess`: make changed definitions live. Plan, apply beside the live release, gate, ask a person if needed, promote.

Started by hand. The tasks' logs and the run's note have the plan and the differences of the answers. If a step fails, or a person
rejects the release, the new release is retired and the live one stays.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param, TriggerRule

from tandem_dags.configuration import configuration
from tandem_dags.defaults import common
from tandem_dags.release import CHANGES, Apply, Approve, GateCheck, Plan, Promote, Retire
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="reprocess",
    doc_md=__doc__,
    schedule=None,
    params={
        "gate": Param("changed_keys < 1%", type="string", description="Conditions for every changed view; empty for none."),
        "approval": Param("if shut", enum=["if shut", "always", "never"], description="When a person is asked to approve."),
        "max_lag": Param(1000, type="integer", minimum=0, description="Offsets that the release may be behind at promotion."),
        "accept_gap": Param([], type="array", items={"type": "string"}, description="Names of gaps to accept."),
        "accept_shorter_history": Param(default=False, type="boolean", description="Build with fewer archived records."),
        "why": Param("reprocess", type="string", description="The reason that `tandem history` shows."),
    },
    **common(CONFIGURED),
):
    plan = Plan(task_id="plan", arguments=["plan"], expected=(0, CHANGES))
    apply = Apply(task_id="apply", arguments=["apply"])
    gate = GateCheck(task_id="gate", arguments=["promote", "--check"], expected=(0, CHANGES))
    approve = Approve(
        task_id="approve",
        subject="Make this release live?",
        body="{{ ti.xcom_pull(task_ids='gate')['why'] }}\n\n```\n{{ ti.xcom_pull(task_ids='apply')['diff'] }}\n```",
        fail_on_reject=True,
        response_timeout=timedelta(days=3),
        # A rejection is final: no retry.
        retries=0,
    )
    promote = Promote(task_id="promote", arguments=["promote"])
    published = Tandem(task_id="published", arguments=["history", "--limit", "1"], announce="views")
    plan >> apply >> gate >> approve >> promote >> published
    [apply, gate, approve, promote] >> Retire(task_id="retire", arguments=["retire"], trigger_rule=TriggerRule.ONE_FAILED)
