"""A task that runs one `tandem` command.

| exit code | the task |
| --- | --- |
| 0, or an expected code | succeeds; what `keep` names of the document is its result |
| 2, wrong usage | fails and is not tried again |
| any other, or a signal | fails and is tried again |

A retry repeats no effect: the commands themselves go on from what stands, and wait for one another's locks.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from tandem_dags import assets
from tandem_dags.command import WRONG_USAGE, Command, Done, secrets_of
from tandem_dags.configuration import configuration
from tandem_dags.progress import ended as ended_hours

STATUS = (0, 3)
"""The exit codes of `tandem status` with a document: 3 where a part is dead, stuck or given up."""

Announced = Literal["views", "days"]


class Tandem(BaseOperator):
    """Run `tandem ARGUMENTS --project ... --json`; see the module for what its exit codes mean.

    `keep` names what of the document becomes the task's result (XCom): small things only. With `windows` only those windows
    are asked for that begin in the run's partition, which lasts as long as said. With `announce` the publication that the
    document tells of becomes events of its views' assets, and with `hours` also of the hours that ended since the last run; none,
    and the task is skipped, where publishing is paused.
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
        self._command: Command | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the command and give what is kept of its document."""
        done = self.run_command([*self.arguments, *self._bounds(context)])
        self.judge(done)
        if self.announce is not None:
            if done.document.get("paused"):
                raise AirflowSkipException("publishing is paused by a rollback until `tandem resume`")
            self._announce(done.document, context)
        return self.result(done, context)

    def result(self, done: Done, context: Context) -> dict[str, Any]:  # noqa: ARG002 - for those that derive from this
        """What the task passes on."""
        return {name: done.document.get(name) for name in self.keep}

    def run_command(self, arguments: Sequence[str]) -> Done:
        """Run one command of the project, its words streamed to the log."""
        configured, secrets = configuration(), secrets_of(os.environ)
        for secret in secrets:
            mask_secret(secret)
        words = [configured.tandem, *arguments, "--project", configured.project, "--json"]
        self.log.info("tandem %s", " ".join(arguments))
        self._command = Command(words, secrets)
        done = self._command.run(lambda line: self.log.info("%s", line))
        self.log.info("exit code %s: %s", done.code, json.dumps(done.document)[:20_000])
        return done

    def judge(self, done: Done, expected: Collection[int] | None = None) -> None:
        """Fail unless the exit code is an expected one; for good where another try would say the same."""
        if done.code == WRONG_USAGE:
            raise AirflowFailException(done.error)
        if done.code not in (self.expected if expected is None else expected):
            raise AirflowException(done.error)

    def on_kill(self) -> None:
        """The task is to end: so is its command."""
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
        # Not when the run began, which may be past another hour: what `archive` copied before a retry is older.
        since, until = context.get("prev_data_interval_end_success"), context["dag_run"].run_after
        if self.hours and (ended := ended_hours(since, until)):
            event = events[assets.hours(project)]
            event.extra = extra
            event.add_partitions(ended)


def _outlets(project: str, announce: Announced, *, hours: bool) -> list[Asset | AssetAlias]:
    alias = assets.any_view_days(project) if announce == "days" else assets.any_view(project)
    return [alias, assets.hours(project)] if hours else [alias]
