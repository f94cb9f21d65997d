"""A record as a producer sends it and a consumer receives it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """A record for a producer: `milliseconds` since 1970 are its timestamp; a header's value may be None."""

    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers
