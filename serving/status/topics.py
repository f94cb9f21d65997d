"""The topics of a source for `status`: those that it reads, those that have joined or gone."""

from collections.abc import Mapping
from typing import Any

from tandem.serving.status.sources import LogEnd
from tandem.views.source.source import Source


def topics_document(recorded: Mapping[str, str], source: Source, end: LogEnd) -> dict[str, Any]:
    """`topic_pattern` as declared, or null; `topics` in the order of the log, each a generation of a name, with its id and state.

    The state is `read`, `new` before any part has read it, `gone` once the broker no longer has it, or `unknown` while the
    broker does not answer. `recorded` are the names of the topics that any part has read, by id.
    """
    there = {topic.id for topic in end.topics}
    missing = "unknown" if end.position is None else "gone"
    topics = [{"name": name, "id": id_, "state": "read" if id_ in there else missing} for id_, name in recorded.items()]
    topics += [{"name": each.name, "id": each.id, "state": "new"} for each in end.topics if each.id not in recorded]
    return {"topic_pattern": None if source.pattern is None else source.pattern.text, "topics": topics}


def topics_sentence(source: str, document: Mapping[str, Any]) -> str | None:
    """Which topics match a source's pattern, for a person; None without a pattern."""
    if document["topic_pattern"] is None:
        return None
    states = {"read": "reads", "new": "soon reads", "gone": "has read, and the broker no longer has", "unknown": "has read"}
    named = {state: [topic["name"] for topic in document["topics"] if topic["state"] == state] for state in states}
    clauses = [f"{states[state]} {', '.join(names)}" for state, names in named.items() if names]
    pattern = f"pattern {document['topic_pattern']!r}"
    return f"{source}: of {pattern} it {'; it '.join(clauses)}" if clauses else f"{source}: no topic matches {pattern} yet"
