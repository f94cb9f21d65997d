from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class LogsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[logs]`: the log files in `logs` of the state folder."""

    file_mb: Annotated[Positive, Meta(description="Maximum megabytes of a part's log file; then a new file begins.")] = 8
    kept_files: Annotated[Positive, Meta(description="Number of earlier log files to keep per part.")] = 3
