"""Merge and answer: what batch views and realtime views together say, in process and without Spark."""

from serving.connection import Connection, PublishedView, connect
from serving.outcome import Absent, Failed, Value

__all__ = ["Absent", "Connection", "Failed", "PublishedView", "Value", "connect"]
