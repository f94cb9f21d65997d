"""Merge and answer: what batch views and realtime views together say, in process and without Spark."""

from serving.changes import Changes, TokenGone
from serving.connection import AtOneSnapshot, Connection, PublishedView, connect
from serving.outcome import Absent, Failed, ReadFailed, Value
from serving.view_at import ViewAt

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
