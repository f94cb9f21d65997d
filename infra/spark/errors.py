"""A Spark failure as one sentence: Spark wraps the cause several times and prints stacks of both languages."""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from tandem.infra.kafka import Address, BrokerRefused, java_errors
from tandem.views.errors import TandemError

_PYTHON = "Traceback (most recent call last):"
_CAUSE = re.compile(r"^\s*Caused by: (.*)$", re.MULTILINE)
_CALLED = re.compile(r"^An error occurred while calling .*\n:? ?")
_TIMESTAMP = re.compile(r"Record at topic \S+ partition \d+ offset \d+ has timestamp value \d+ that overflows")
_TIMESTAMP_BEFORE = re.compile(r"ArithmeticException: long overflow(?=.*KafkaRecordToRowConverter)", re.DOTALL)
_PORT_AWAY = re.compile(r"^\s*tandem\.infra\.kafka\.contract\.NoBroker: ", re.MULTILINE)
_LOG_MOVED = re.compile(r"^\s*tandem\.infra\.kafka\.bulk_reader\.LogMoved: ", re.MULTILINE)
_NOT_RUN = re.compile(r'Cannot run program "[^"]*"(?: \(in directory "[^"]*"\))?: .*')
_OURS = ("tandem.",)


SPARK_ERRORS: Final = (Py4JJavaError, PySparkException)
"""The exceptions of PySpark for failures in Java or in a task."""


class JavaEnded(TandemError, code="java-ended"):
    """Spark's Java process has ended while the Python process still needed it."""


def worded(error: BaseException, what: str) -> TandemError | None:
    """An error of Spark, or of the loss of its JVM, as a sentence that begins with `what`; None for any other error."""
    if java_ended(error):
        return JavaEnded(f"{what}: Spark's Java process has ended: it was killed, or has crashed")
    if isinstance(error, SPARK_ERRORS):
        return TandemError(f"{what}: {sentence(error)}")
    return None


def broker_away(error: BaseException) -> bool:
    """Whether Spark failed because of a retriable error of the broker, in Java or in a task that reads by the port."""
    return isinstance(error, SPARK_ERRORS) and (java_errors.heals(_text(error)) or _PORT_AWAY.search(_text(error)) is not None)


def broker_refusal(error: BaseException | None, address: Address) -> BrokerRefused | None:
    """Why the broker of this address refuses what Spark asks of it; None if Spark failed for another reason."""
    return java_errors.refusal(address, _text(error)) if isinstance(error, SPARK_ERRORS) else None


def lacks_offsets(error: BaseException) -> bool:
    """Whether a task that reads by the port failed because the log no longer has what it was to read."""
    return isinstance(error, SPARK_ERRORS) and _LOG_MOVED.search(_text(error)) is not None


def timestamp_overflows(error: BaseException) -> bool:
    """Whether Spark's Kafka source failed because a record's timestamp in microseconds does not fit in 64 bits."""
    text = _text(error)
    return _TIMESTAMP.search(text) is not None or _TIMESTAMP_BEFORE.search(text) is not None


def sentence(error: BaseException) -> str:
    """The root cause of an error of Spark, without a stack."""
    text = _text(error)
    if _PYTHON in text:
        return _raised_in_python(text.splitlines())
    if not_run := _NOT_RUN.search(text):  # its own cause is only "error=2, No such file or directory"
        return not_run.group().strip()
    causes = _CAUSE.findall(text)
    text = _CALLED.sub("", text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _without_package(causes[-1].strip() if causes else first)


def _text(error: BaseException) -> str:
    return getattr(error, "_stackTrace", None) or str(error)


def java_ended(error: BaseException) -> bool:
    """Whether the error means that the JVM has ended, rather than that it raised an exception."""
    if isinstance(error, Py4JJavaError):
        return False
    return isinstance(error, Py4JNetworkError | Py4JError | ConnectionError | EOFError)


def _raised_in_python(lines: list[str]) -> str:
    """The last line of the innermost Python stack, which ends where the indentation does."""
    start = max(number for number, line in enumerate(lines) if line.strip().endswith(_PYTHON))
    indent = len(lines[start]) - len(lines[start].lstrip())
    raised = next((line.strip() for line in lines[start + 1 :] if line.strip() and len(line) - len(line.lstrip()) <= indent), "")
    name, _, said = raised.partition(": ")
    return said if name.startswith(_OURS) and said else _without_package(raised or "a Python worker failed")


def _without_package(raised: str) -> str:
    """`java.io.IOException: No space left` as `IOException: No space left`."""
    name, colon, said = raised.partition(": ")
    return f"{name.rpartition('.')[2]}{colon}{said}" if re.fullmatch(r"[\w.$]+", name) else raised
