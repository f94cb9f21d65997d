"""Merges batch views and realtime views, and answers from both, in process and without Spark.

Names are imported on first use, because the processes that run foreign SQL must load only the part that they use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tandem.serving.changes import Changes
    from tandem.serving.connection import AtOneSnapshot, Connection, PublishedView, connect
    from tandem.serving.memory.changes_token import TokenGone
    from tandem.serving.read.outcome import Absent, Failed, ReadFailed, Value
    from tandem.serving.view_at import ViewAt

_OFFERED: Final = {
    "Absent": "tandem.serving.read.outcome",
    "AtOneSnapshot": "tandem.serving.connection",
    "Changes": "tandem.serving.changes",
    "Connection": "tandem.serving.connection",
    "Failed": "tandem.serving.read.outcome",
    "PublishedView": "tandem.serving.connection",
    "ReadFailed": "tandem.serving.read.outcome",
    "TokenGone": "tandem.serving.memory.changes_token",
    "Value": "tandem.serving.read.outcome",
    "ViewAt": "tandem.serving.view_at",
    "connect": "tandem.serving.connection",
}

__all__ = [
    "Absent",
    "AtOneSnapshot",
    "Changes",
    "Connection",
    "Failed",
    "PublishedView",
    "ReadFailed",
    "TokenGone",
    "Value",
    "ViewAt",
    "connect",
]


def __getattr__(name: str) -> Any:
    """A public name, imported from its module."""
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)
