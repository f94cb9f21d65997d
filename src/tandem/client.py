"""Answers in a program, as rows, Arrow tables and pandas frames: from a project's tables, or from a server over HTTP.

`connect` opens the tables of a project where the program runs; `client` asks a `tandem serve`.
"""

from tandem.serving.changes import Changes, TokenGone
from tandem.serving.client import client
from tandem.serving.connection import AtOneSnapshot, Connection, PublishedView, connect
from tandem.serving.read.outcome import Absent, Failed, ReadFailed, Value
from tandem.serving.view_at import ViewAt

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
    "client",
    "connect",
]
