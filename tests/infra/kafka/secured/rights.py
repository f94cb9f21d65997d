"""The rights that docs/kafka.md lists as sufficient."""

import re

from tandem.infra.folders import ROOT
from tests.infra.kafka.secured.brokers import Right


def documented_rights(topics: str) -> list[Right]:
    """Each row of the page's table, for topics of this name; a name that ends in * is a prefix."""
    page = (ROOT / "docs" / "kafka.md").read_text("utf-8")
    section = page[page.index("\n## Rights\n") : page.index("\n## Refusals\n")]
    rows = re.findall(r"^\| [^|]+ \| (topic|group) \| ([^|]+) \| ([A-Z_, ]+) \|$", section, re.MULTILINE)
    names = {"TOPICS": topics, "`tandem`, a prefix": "tandem*"}
    return [Right(kind.upper(), names[name], operations.split(", ")) for kind, name, operations in rows]
