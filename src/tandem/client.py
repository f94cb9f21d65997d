"""Answers in a program, as rows, Arrow tables and pandas frames: from a project's tables, or from a server over HTTP.

`connect` opens the tables of a project where the program runs; `client` asks a `tandem serve`.
"""

from tandem.serving.changes import Changes
from tandem.serving.client.answers import RowsPage, SentEvents, ServerAnswer
from tandem.serving.client.event_stream import ServerChanges
from tandem.serving.client.parameters import AnswerOptions
from tandem.serving.client.server_client import Client, Refused, client
from tandem.serving.connection import AtOneSnapshot, Connection, PublishedView, connect
from tandem.serving.memory.changes_token import TokenGone
from tandem.serving.read.outcome import Absent, Failed, ReadFailed, Value
from tandem.serving.view_at import ViewAt

__all__ = [
    "Absent",
    "AnswerOptions",
    "AtOneSnapshot",
    "Changes",
    "Client",
    "Connection",
    "Failed",
    "PublishedView",
    "ReadFailed",
    "Refused",
    "RowsPage",
    "SentEvents",
    "ServerAnswer",
    "ServerChanges",
    "TokenGone",
    "Value",
    "ViewAt",
    "client",
    "connect",
]
