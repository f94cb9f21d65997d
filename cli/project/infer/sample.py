"""What a file holds."""

from collections.abc import Mapping
from dataclasses import dataclass

from tandem.cli.project.infer.field_type import FieldType


@dataclass(frozen=True)
class FileSample:
    """What a file holds: the call of its decoder, and the types of its columns.

    * `decoder`: empty for the default, json().
    * `rows`: the number of rows that were read.
    * `repeats`: the columns of which equal values are only in rows that are equal as a whole: what may identify an event.
    * `note`: what a person should know of the file as a whole.
    * `topic`: the topic of the records; empty for a topic with the source's name.
    """

    decoder: str
    columns: Mapping[str, FieldType]
    rows: int
    repeats: frozenset[str]
    note: str = ""
    topic: str = ""
