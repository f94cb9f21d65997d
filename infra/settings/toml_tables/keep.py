from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Positive


class KeepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[keep]`: retention of publications, releases and files."""

    publications: Annotated[Positive, Meta(description="Number of newest publications to retain with their data.")] = 2
    days: Annotated[Count, Meta(description="Days for which a publication is retained after another one replaced it.")] = 0
    release_days: Annotated[
        Count, Meta(description="Days for which a formerly live release is kept up to date for a rollback, unless it is retired.")
    ] = 7
    file_hours: Annotated[
        int, Meta(ge=1, le=168, description="Hours for which an unused file stays on disk, for queries that still read it.")
    ] = 1
