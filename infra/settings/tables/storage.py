from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Storage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[storage]`: where the tables are."""

    root: Annotated[
        str,
        Meta(description="Folder of all tables, relative to the project's folder; empty is `tables` in the state folder."),
    ] = ""
    network: Annotated[
        Literal["refuse", "locks"],
        Meta(
            description="What to do about a root on a network file system: `refuse` it, or trust that POSIX `locks` work there "
            "between all processes that use it."
        ),
    ] = "refuse"
