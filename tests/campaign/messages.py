"""The command endings that mislead a person or program."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tandem.cli.command import exit_codes

_STACKS: Final = re.compile(r"Traceback \(most recent call last\)|^\s+at [\w.$/]+\([\w.]*(:\d+)?\)", re.MULTILINE)
_UNTIL_STOPPED: Final = ("speed", "serve")
"""These print what they print while they run."""
_UNFORESEEN: Final = "--debug shows where"
"""How the command line words an exception that no code foresaw."""


@dataclass(frozen=True)
class Ended:
    """A command that ended: its words, its exit code, what it printed. `killed` if the campaign killed a process of it."""

    words: Sequence[str]
    code: int
    out: str
    err: str
    killed: bool = False

    @property
    def document(self) -> dict[str, Any]:
        """What it printed with `--json`; empty if that is no document. The last line, of what prints one while it runs."""
        try:
            found = json.loads(self.out.splitlines()[-1] if self.words[0] in _UNTIL_STOPPED and self.out else self.out)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def misleading(ended: Ended) -> list[str]:
    """Why an ending misleads, a sentence for each reason.

    An exit code that docs/reference.md does not list for the command, a stack of Python or Java, an exception that no code
    foresaw, output that is not one JSON document, a failure without a sentence. A command that was killed can only print a stack.
    """
    found = ["it prints a stack"] if _STACKS.search(ended.out + ended.err) else []
    if ended.killed and ended.code < 0:
        return found
    if ended.code not in exit_codes.known(ended.words[0]):
        found.append(f"exit code {ended.code} is not documented")
    document = ended.document
    if ended.words[0] in _UNTIL_STOPPED and ended.code == exit_codes.DONE:
        return found
    if not document:
        found.append("--json prints no document")
    elif ended.code == exit_codes.FAILED and not document.get("error"):
        found.append("it fails and gives no reason")
    if _UNFORESEEN in str(document.get("error", "")):
        found.append("an exception that nothing foresaw")
    return found


def calls_it_well(*, code: int, ready: int | None) -> list[str]:
    """Why `status` and `/readyz` mislead while a part has stood still for longer than the bound; None is no answer."""
    found = ["`status` exits with 0 while a part stands still"] if code == exit_codes.DONE else []
    return [*found, *(["/readyz answers 200 while a part stands still"] if ready == 200 else [])]
