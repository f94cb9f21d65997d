from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Positive


class BatchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[batch]`: archive and recompute."""

    lock_wait_s: Annotated[Count, Meta(description="Seconds to wait for another run that holds the lock.")] = 600
    task_mb: Annotated[Positive, Meta(description="Megabytes of Parquet that one recompute task folds.")] = 128
