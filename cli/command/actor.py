"""The person or token for whom a command runs, as the history shows it."""

import getpass
from typing import Final

from tandem.cli.command.call import Call

VARIABLE: Final = "TANDEM_WHO"
"""The variable that names for whom a command runs, if not for the user: `tandem serve` sets it to the token's name."""


def who(call: Call, command: str) -> str:
    """The command, and for whom it runs: the name in the variable, else the user's, if there is one."""
    if named := call.environ.get(VARIABLE):
        return f"{command} ({named})"
    try:
        return f"{command} ({getpass.getuser()})"
    except (KeyError, OSError):  # a user without an entry, as in a container
        return command
