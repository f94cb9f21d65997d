"""A sink's definition as the rows that it wants and a target; what is refused before it runs."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from tandem.infra.settings import Settings
from tandem.serving.read.outputs import check_output
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.target import SinkInProject, SinkRefused, Target, TargetKind, TargetLog
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tandem.views.sinks.delta_table import SinkTable
from tandem.views.sinks.kafka_topic import SinkTopic, kafka_topic
from tandem.views.sinks.postgres_table import PostgresTable
from tandem.views.sinks.sink import Sink, SinkTarget
from tandem.views.sinks.webhook import SinkWebhook

TRIAL_TOPICS: Final = "trial."
"""What the names of topics begin with in a trial."""


def sinks_of(project: Project, settings: Settings, folder: Path) -> dict[str, SinkInProject]:
    """The sinks that run in an installation, by name.

    In a trial they write into its folder, and to topics of other names at the installation's own broker; those with a target
    elsewhere do not run. Raises SinkRefused for a trial in the project's folder itself.
    """
    trial = settings.sinks.trial
    base = folder / trial if trial else folder
    if trial and base.resolve() == folder.resolve():
        raise SinkRefused(f"sinks.trial is {trial!r}, the project's own folder, where the targets are; name another folder")
    sinks = {name: _of_trial(sink, settings) if trial else sink for name, sink in project.sinks.items()}
    return {name: SinkInProject(sink, project, settings, base) for name, sink in sinks.items() if sink is not None}


def _of_trial(sink: Sink, settings: Settings) -> Sink | None:
    """The sink as it may run in a trial; None for a target that others may read."""
    match sink.to:
        case SinkTable() if sink.to.relative:
            return sink
        case SinkTopic(topic) if not settings.kafka.bootstrap:
            return replace(sink, to=kafka_topic(f"{TRIAL_TOPICS}{topic}"))
    return None


def rows_of(sink: Sink) -> RowsWanted:
    """The rows of the view that the target has."""
    return RowsWanted(sink.keys, sink.where, output=sink.output)


def follows_hot(sink: Sink) -> bool:
    """Whether a sink follows the hot tail where it runs.

    Not a table of Delta, since each step costs a commit with files; nor a log, which has nothing to compare with once a token of
    hot commits has expired.
    """
    return isinstance(sink.to, SinkTopic | PostgresTable) and sink.output == "update"


def check_sink(defined: SinkInProject) -> None:
    """Raise BadSelection for invalid rows, SinkRefused for a target that cannot have them; nothing is read of the target."""
    wanted = rows_of(defined.sink)
    row_filter(defined.view, wanted)
    check_output(defined.view, wanted.output, wanted.late)
    _kind(defined.sink.to).check_target(defined)


def target_of(defined: SinkInProject) -> Target | TargetLog:
    """The target of a sink. Raises TandemError."""
    return _kind(defined.sink.to).open_target(defined)


def _kind(target: SinkTarget) -> TargetKind:
    """The module for a kind of target, which imports the client of the target."""
    match target:
        case SinkTable():
            from tandem.serving.sinks import delta  # noqa: PLC0415

            return delta
        case SinkTopic():
            from tandem.serving.sinks import kafka_topic  # noqa: PLC0415

            return kafka_topic
        case PostgresTable():
            try:
                from tandem.serving.sinks import postgres  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise TandemError(
                    f"{target} needs the package psycopg: `pip install tandem[postgres]`", code="packages-missing"
                ) from error
            return postgres
        case SinkWebhook():
            from tandem.serving.sinks import webhook  # noqa: PLC0415

            return webhook
    raise SinkRefused(f"{target} is of a kind that `tandem sink` cannot write")
