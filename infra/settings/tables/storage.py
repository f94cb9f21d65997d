from typing import Annotated

import msgspec
from msgspec import Meta


class Storage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[storage]`: where the tables are."""

    root: Annotated[
        str,
        Meta(description="Folder of all tables, relative to the project's folder; empty is `tables` in the state folder."),
    ] = ""
