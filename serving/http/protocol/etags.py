"""Entity tags of answers."""


def has(given: str | None, entity: str) -> bool:
    """Whether one of the entity tags of If-None-Match is this one, by weak comparison (RFC 9110, 13.1.2)."""
    tags = {tag.strip().removeprefix("W/") for tag in (given or "").split(",")}
    return "*" in tags or entity.removeprefix("W/") in tags
