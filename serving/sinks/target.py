"""The port of a sink's target."""

from typing import Protocol

import pyarrow as pa


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
