"""What went wrong under Spark, as one sentence without a stack."""

from views.errors import TandemError


def worded(error: BaseException) -> TandemError:
    """The error as a sentence."""
    return error if isinstance(error, TandemError) else TandemError(repr(error)[:2000])
