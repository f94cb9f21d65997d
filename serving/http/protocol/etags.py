"""Entity tags of answers."""


def has(given: str | None, entity: str) -> bool:
    """Whether If-None-Match contains this entity tag, by weak comparison (RFC 9110, 13.1.2)."""
    tags = {tag.strip().removeprefix("W/") for tag in (given or "").split(",")}
    return "*" in tags or entity.removeprefix("W/") in tags
