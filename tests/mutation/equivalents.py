"""Mutants that no test can catch, each with the reason: `equivalents.toml` lists them by their changed line, in whatever file."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.mutation.changes import Change

FILE = Path(__file__).with_name("equivalents.toml")


@cache
def reasons() -> Mapping[tuple[str, str], str]:
    """The reason by the line as it is and the line as the mutant has it, both without the space around."""
    listed = tomllib.loads(FILE.read_text()).get("equivalent", [])
    return {(each["old"], each["new"]): each["reason"] for each in listed}


def reason(change: Change, text: str) -> str | None:
    """Why the change of the file's text is none, or None if it is one."""
    return reasons().get(change.shown(text))
