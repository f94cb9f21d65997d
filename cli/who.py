"""Who does something by hand: what the history says beside it."""

import getpass


def who(command: str) -> str:
    """The command, and the user if there is a name for one."""
    try:
        return f"{command} ({getpass.getuser()})"
    except (KeyError, OSError):  # a user without an entry, as in a container
        return command
