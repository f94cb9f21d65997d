"""The port of a sink's target."""

from typing import Protocol

import pyarrow as pa


class Target(Protocol):
    """Rows of a view by key and window, and the token up to which they are the view's."""

    def token(self) -> str | None:
        """The token of the last write; None before the first. Raises TandemError."""

    def content(self) -> pa.Table:
        """The rows as they are in the target. Raises TandemError."""

    def write(self, rows: pa.Table, gone: pa.Table, token: str) -> None:
        """In one step, put `rows` in place, delete those that `gone` identifies, and store the token.

        Raises Conflict if another process has written since this one read the target.
        """
