"""The two ports of a sink's target, one for rows and one for messages, and what a module for a kind of target provides."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tandem.infra.settings import Settings
from tandem.serving.sinks.log_messages import SinkMessage
from tandem.serving.sinks.sink_token import Stamp
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tandem.views.sinks.sink import Sink
from tandem.views.view import View


class SinkRefused(TandemError, code="sink-refused"):
    """A sink cannot keep its target equal to its view."""


@dataclass(frozen=True)
class SinkInProject:
    """A sink with what its target may need: the definitions and settings of its project, and the project's folder."""

    sink: Sink
    project: Project
    settings: Settings
    folder: Path

    @property
    def view(self) -> View:
        """The view as the project has it."""
        return self.project.every_view[self.sink.view.name]


@runtime_checkable
class Target(Protocol):
    """Rows of a view by key and window, and the token up to which they are the view's."""

    def token(self) -> str | None:
        """The text of the newest stamp, if nobody else has written since. Raises TandemError."""

    def newest(self) -> str | None:
        """The text of the newest stamp, also if somebody else has written since. Raises TandemError."""

    def convert(self, rows: pa.Table) -> pa.Table:
        """The rows, or some columns of them, in the types that the target has.

        Raises TandemError for a value that has no place there.
        """

    def content(self, columns: pa.Schema, identity: Sequence[str]) -> pa.Table | None:
        """The rows in the target, which the columns `identity` identify; None without a target of these columns.

        Raises TandemError.
        """

    def write(self, rows: pa.Table, gone: pa.Table, stamp: Stamp) -> None:
        """In one step, put `rows` in place, delete those that the columns of `gone` identify, and store the stamp.

        Raises Conflict if another process has written since this one read the target, and Unwritable.
        """

    def replace(self, rows: pa.Table, identity: Sequence[str], stamp: Stamp) -> None:
        """In one step, put `rows` in place of all rows, with their columns, and store the stamp. Raises as `write`."""

    def close(self) -> None:
        """Release the client; the target is not used afterwards."""


@runtime_checkable
class TargetLog(Protocol):
    """A log to which messages about rows are appended, and the token up to which it has them."""

    def token(self) -> str | None:
        """The text of the newest stamp; None if nothing was ever appended, empty if it was lost. Raises TandemError."""

    def append(self, messages: Sequence[SinkMessage], stamp: Stamp) -> None:
        """In one step, append the messages and store the stamp. Raises TandemError."""

    def close(self) -> None:
        """Release the client; the target is not used afterwards."""


class TargetKind(Protocol):
    """A module of `tandem.serving.sinks` for one kind of target."""

    def check_target(self, defined: SinkInProject) -> None:
        """Raise SinkRefused for a target that cannot have the rows of the view, or must not; nothing is read of the target."""

    def open_target(self, defined: SinkInProject) -> Target | TargetLog:
        """The target, which may not exist yet. Raises TandemError."""
