#!/usr/bin/env bash
# KafkaError of confluent-kafka 2.16.1 can be raised, and after a fatal error `flush` raises it now and then in place of KafkaException, but
# the class has only `object` as a base. So no `except Exception` and no `except BaseException` catches it: only a bare `except:` does, or
# the `__exit__` of a context manager. A thread or a test runner whose last resort is `except BaseException` ends by it.
# Seen: `raise KafkaError(31)` raises no TypeError, passes `except BaseException`, and is caught by `except:`; KafkaException is caught.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$work/venv/bin/python" - <<'PYTHON'
import sys

from confluent_kafka import KafkaError, KafkaException, version


def caught(error):
    try:
        try:
            raise error
        except BaseException:
            return "except BaseException"
    except:
        return f"a bare except alone: {sys.exc_info()[0].__mro__}"


error = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
seen = {type(each).__name__: caught(each) for each in (error, KafkaException(error))}
print("confluent-kafka", version() if isinstance(version(), str) else version()[0], seen)
print("KafkaError is a BaseException:", issubclass(KafkaError, BaseException))
expected = seen["KafkaError"].startswith("a bare except alone") and seen["KafkaException"] == "except BaseException"
raise SystemExit(not expected or issubclass(KafkaError, BaseException))
PYTHON
