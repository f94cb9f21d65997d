"""Merges batch views and realtime views, and answers from both, in process and without Spark.

Names are imported on first use, because the processes that run foreign SQL must load only the part that they use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from serving.changes import Changes, TokenGone
    from serving.connection import AtOneSnapshot, Connection, PublishedView, connect
    from serving.read.outcome import Absent, Failed, ReadFailed, Value
    from serving.view_at import ViewAt

_OFFERED: Final = {
    "Absent": "serving.read.outcome",
    "AtOneSnapshot": "serving.connection",
    "Changes": "serving.changes",
    "Connection": "serving.connection",
    "Failed": "serving.read.outcome",
    "PublishedView": "serving.connection",
    "ReadFailed": "serving.read.outcome",
    "TokenGone": "serving.changes",
    "Value": "serving.read.outcome",
    "ViewAt": "serving.view_at",
    "connect": "serving.connection",
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
