"""The media types of rows, which the client of a server knows too, without the server's packages."""

from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
MEDIA: Final = (JSON, NDJSON, CSV, ARROW)
