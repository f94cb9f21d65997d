from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

OBJECT_STORES: Final = ("s3", "gs", "az", "abfss")
"""The schemes of addresses of object stores."""


class StorageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[storage]`: the folder of the tables."""

    root: Annotated[
        str,
        Meta(
            description="Where all tables are: a folder, relative to the project's folder, or an object store, such as "
            "`s3://bucket/prefix`; empty is `tables` in the state folder."
        ),
    ] = ""
    options: Annotated[
        dict[str, str],
        Meta(
            description="Options of the object store's client as delta-rs names them, such as `aws_endpoint_url`; "
            "never a credential."
        ),
    ] = {}
    network: Annotated[
        Literal["refuse", "locks"],
        Meta(
            description="What to do about a root on a network file system: `refuse` it, or trust that POSIX `locks` work there "
            "between all processes that use it."
        ),
    ] = "refuse"
    folder: Annotated[
        Literal["own", "shared"],
        Meta(
            description="Of a root that is a folder: this machine's `own`, or `shared`: every host of Spark's cluster reads and "
            "writes it at the same path."
        ),
    ] = "own"
