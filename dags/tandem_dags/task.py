"""A task that runs one `tandem` command.

| exit code | the task |
| --- | --- |
| 0, or an expected code | succeeds; its result has the fields of the document that `keep` names |
| 2, wrong usage | fails without a retry |
| any other, or a signal | fails and is retried |

A retry repeats no effect: the commands continue from the last completed step, and wait for each other's locks.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from tandem_dags import assets, notes
from tandem_dags.command import WRONG_USAGE, Command, Done, secrets_of
from tandem_dags.configuration import configuration
from tandem_dags.pod import PodCommand
from tandem_dags.progress import ended as ended_hours

STATUS = (0, 3)
"""The exit codes of `tandem status` with a document: 3 if a part is dead, stuck or given up, or a source is silent."""

Announced = Literal["views", "days"]


class Tandem(BaseOperator):
    """Runs `tandem ARGUMENTS --project ... --json`; the module's docstring explains its exit codes.

    * `keep`: the fields of the document that become the task's result (XCom); small values only.
    * `windows`: pass only the windows that begin in the run's partition, which has this length.
    * `announce`: the publication in the document becomes events of its views' assets.
    * `hours`: also events of the hours that ended since the last run.

    If publishing is paused, there are no events and the task is skipped. Conditions of views that rows do not meet are in the
    run's note.
    """

    template_fields: Collection[str] = ("arguments",)

    def __init__(
        self,
        *,
        arguments: Sequence[str],
        keep: Sequence[str] = (),
        expected: Collection[int] = (0,),
        windows: timedelta | None = None,
        announce: Announced | None = None,
        hours: bool = False,
        **given: Any,
    ) -> None:
        if announce is not None:
            given["outlets"] = _outlets(configuration().called, announce, hours=hours)
        super().__init__(**given)
        self.arguments = list(arguments)
        self.keep = tuple(keep)
        self.expected = tuple(expected)
        self.windows = windows
        self.announce = announce
        self.hours = hours
        self._command: Command | PodCommand | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the command and return the kept fields of its document."""
        done = self.run_command([*self.arguments, *self._bounds(context)])
        if text := notes.unmet(done.document):
            notes.tell(context["dag_run"].dag_id, context["run_id"], text, self.log.warning)
        self.judge(done)
        if self.announce is not None:
            if done.document.get("paused"):
                raise AirflowSkipException("publishing is paused by a rollback until `tandem resume`")
            self._announce(done.document, context)
        return self.result(done, context)

    def result(self, done: Done, context: Context) -> dict[str, Any]:  # noqa: ARG002 - for derived classes
        """The result of the task."""
        return {name: done.document.get(name) for name in self.keep}

    def run_command(self, arguments: Sequence[str]) -> Done:
        """Run one command of the project, and copy the lines of its stderr to the log."""
        configured, secrets = configuration(), secrets_of(os.environ)
        for secret in secrets:
            mask_secret(secret)
        words = [*arguments, "--project", configured.project, "--json"]
        self.log.info("tandem %s", " ".join(arguments))
        who = f"Airflow, DAG {self.dag_id}"
        if configured.pod:
            self._command = in_pod = PodCommand(words, configured.pod, who, self.task_id)
            done = in_pod.run(get_current_context())
        else:
            self._command = here = Command([configured.tandem, *words], secrets, who=who)
            done = here.run(lambda line: self.log.info("%s", line))
        self.log.info("exit code %s: %s", done.code, json.dumps(done.document)[:20_000])
        return done

    def judge(self, done: Done, expected: Collection[int] | None = None) -> None:
        """Fail unless the exit code is expected; without a retry if another try would fail alike."""
        if done.code == WRONG_USAGE:
            raise AirflowFailException(done.error)
        if done.code not in (self.expected if expected is None else expected):
            raise AirflowException(done.error)

    def on_kill(self) -> None:
        """End the command, because the task must end."""
        if self._command is not None:
            self._command.stop()

    def _bounds(self, context: Context) -> list[str]:
        if self.windows is None:
            return []
        if context["dag_run"].run_type == "scheduled":
            raise AirflowSkipException("windows are rebuilt when a backfill asks for them")
        start = context.get("partition_date")
        if start is None:
            raise AirflowFailException("this run has no partition: start it with `airflow backfill create`")
        return ["--from", start.isoformat(), "--to", (start + self.windows).isoformat()]

    def _announce(self, document: Mapping[str, Any], context: Context) -> None:
        project, events = configuration().called, context["outlet_events"]
        extra, views = assets.published(document)
        if self.announce == "days":
            alias, asset = assets.any_view_days(project), assets.view_days
        else:
            alias, asset = assets.any_view(project), assets.view
        for view in views:
            events[alias].add(asset(project, view), extra=extra)
        # Not the start of this run: a retry may start after another hour has ended, with records that `archive` copied before.
        since, until = context.get("prev_data_interval_end_success"), context["dag_run"].run_after
        if self.hours and (ended := ended_hours(since, until)):
            event = events[assets.hours(project)]
            event.extra = extra
            event.add_partitions(ended)


def _outlets(project: str, announce: Announced, *, hours: bool) -> list[Asset | AssetAlias]:
    alias = assets.any_view_days(project) if announce == "days" else assets.any_view(project)
    return [alias, assets.hours(project)] if hours else [alias]
