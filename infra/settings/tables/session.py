from typing import Annotated

import msgspec
from msgspec import Meta

from infra.settings.tables.values import Count


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[session]`: the Spark session that `up` keeps between runs of `archive` and `recompute`."""

    idle_s: Annotated[
        Count,
        Meta(
            description="Seconds without a run after which the kept session ends and frees its memory. The next run starts it "
            "again. 0: `up` keeps no session, and each run starts Spark. Needs a local `spark.master`."
        ),
    ] = 0
