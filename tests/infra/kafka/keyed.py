"""A project whose one source has a key."""

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count

class Line(Event):
    id: str
    at: datetime

lines = Source(topic="{topic}", event=Line, event_time="at", key="id")
hits = View(source=lines, measures={{"n": count()}})
SOURCES = (lines,)
VIEWS = (hits,)
"""
