"""Who does something by hand: what the history says beside it."""

import getpass
from typing import Final

from cli.command.call import Call

VARIABLE: Final = "TANDEM_WHO"
"""Names for whom a command is run, where that is not the user: `tandem serve` sets it for what a token asks for."""


def who(call: Call, command: str) -> str:
    """The command, and for whom it is run, or the user if there is a name for one."""
    if named := call.environ.get(VARIABLE):
        return f"{command} ({named})"
    try:
        return f"{command} ({getpass.getuser()})"
    except (KeyError, OSError):  # a user without an entry, as in a container
        return command
