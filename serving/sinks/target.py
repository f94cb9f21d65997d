"""The port of a sink's target, and what a module for a kind of target provides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tandem.infra.settings import Settings
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
        return self.project.views[self.sink.view.name]


class Target(Protocol):
    """Rows of a view by key and window, and the token up to which they are the view's."""

    def token(self) -> str | None:
        """The token of the newest write, if nobody else has written since. Raises TandemError."""

    def convert(self, rows: pa.Table) -> pa.Table:
        """The rows in the types that the target has. Raises TandemError for a value that has no place there."""

    def content(self, columns: pa.Schema) -> pa.Table | None:
        """The rows in the target; None if it does not exist, or has other columns than these. Raises TandemError."""

    def write(self, rows: pa.Table, gone: pa.Table, token: str) -> None:
        """In one step, put `rows` in place, delete those that the columns of `gone` identify, and store the token.

        Raises Conflict if another process has written since this one read the target, and Unwritable.
        """

    def replace(self, rows: pa.Table, token: str) -> None:
        """In one step, put `rows` in place of all rows, with their columns, and store the token. Raises as `write`."""


class TargetKind(Protocol):
    """A module of `tandem.serving.sinks` for one kind of target."""

    def check_target(self, defined: SinkInProject) -> None:
        """Raise SinkRefused for a target that cannot have the rows of the view, or must not; nothing is read of the target."""

    def open_target(self, defined: SinkInProject) -> Target:
        """The target, which may not exist yet. Raises TandemError."""
