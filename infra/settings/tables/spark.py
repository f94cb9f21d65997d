from typing import Annotated

import msgspec
from msgspec import Meta

from infra.settings.tables.values import Memory


class Spark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[spark]`: Spark's master, memory and properties."""

    master: Annotated[str, Meta(description="Spark's master: local[N], or the address of a cluster.")] = "local[*]"
    driver_memory: Annotated[Memory, Meta(description="Maximum Java heap of a Spark driver, such as 512m or 2g.")] = "1g"
    conf: Annotated[dict[str, str], Meta(description="Additional Spark properties; they override Tandem's own.")] = {}
