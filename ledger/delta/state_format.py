"""The format of a state folder: the version of the words in its tables, which every table has as its Delta description.

The version changes where names of stored definitions, columns or journals change. Journals are checked when they are opened, so
no command reads or writes a state of another format. The records of the log outlive a format: `export` and `import` move them.
"""

import re
from typing import Final, NoReturn

from tandem.views.errors import TandemError

FORMAT: Final = 4
"""The format that this version reads and writes. States of before the first marker have none."""

DESCRIPTION: Final = f"Tandem state format {FORMAT}"

_DESCRIPTION: Final = re.compile(r"Tandem state format (\d+)")


class OtherStateFormat(TandemError, code="state-format-differs"):
    """The state folder was written by a version of Tandem with another format."""


def check(root: str, description: str | None) -> None:
    """Raises OtherStateFormat if a journal below `root` has another description than this version's."""
    if description != DESCRIPTION:
        match = _DESCRIPTION.fullmatch(description or "")
        refuse(root, f"format {match[1]}" if match else "no format number")


def refuse(root: str, found: str = "no format number") -> NoReturn:
    """Raises OtherStateFormat: the state in `root` has what was `found`."""
    raise OtherStateFormat(
        f"the state in {root} has {found}, and this version of Tandem needs format {FORMAT}: with the version that wrote it "
        "run `tandem archive` and `tandem export --all DIR`, then set `state` to another folder and run `tandem import DIR`; "
        "docs/recover.md has the steps"
    )
