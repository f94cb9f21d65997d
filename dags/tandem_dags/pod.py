"""Runs `tandem` for a task in a pod, where Airflow has no checkout: by the KubernetesPodOperator of Airflow's provider.

The pod's main container runs the image's `container/task`, which returns the command's exit code and document as the pod's result
(XCom). The command's other lines go to the task's log.

A pod outlives a task whose worker dies. The retry starts another pod, whose command waits for the lease of the first one and then
sees what that one published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk import Context

from tandem_dags.command import Done

_ENTRY: Final = "/opt/tandem/container/task"
_START_S: Final = 600


@dataclass
class PodCommand:
    """One run of `tandem` in a pod of this template, which can be stopped; `tandem history` shows `who` as its caller."""

    words: Sequence[str]
    template: str
    who: str
    name: str
    _operator: Any = None

    def run(self, context: Context) -> Done:
        """Run the command to its end. The provider raises if the pod cannot start, or ends without a result."""
        # Only an Airflow whose tasks run in pods has this provider.
        from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: PLC0415

        self._operator = KubernetesPodOperator(
            task_id=self.name,
            pod_template_file=self.template,
            cmds=[_ENTRY],
            arguments=[*self.words],
            env_vars={"TANDEM_WHO": self.who},
            do_xcom_push=True,
            # The pod of an earlier try may run another command, so it is not adopted.
            durable=False,
            startup_timeout_seconds=_START_S,
            on_finish_action="delete_pod",
        )
        result: Mapping[str, Any] = self._operator.execute(context)
        return Done(result["code"], result["document"])

    def stop(self) -> None:
        """Delete the pod; its command gets SIGTERM."""
        if self._operator is not None:
            self._operator.on_kill()
