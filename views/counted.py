"""Numbers of things for people."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural but for one: 1 row, 2 rows."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def share(done: int, total: int) -> str:
    """The share in percent, at most 100."""
    return f"{min(100, 100 * done // total)} %"


def remaining_time(seconds: float, done: int, total: int) -> str:
    """`12 s left`, after these seconds for what is done, which is not 0."""
    return f"{_length(max(0.0, seconds * (total - done) / done))} left"


def _length(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
