"""Numbers of things for people."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural but for one: 1 row, 2 rows."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
