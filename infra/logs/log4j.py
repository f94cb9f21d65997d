"""The configuration of log4j, so that a JVM's log is JSON lines like any other: `time`, `level`, `logger`, `event`."""

from pathlib import Path
from typing import Final

from tandem.infra.files.property_text import escape
from tandem.infra.logs.files import LogBounds

# The stack is part of the event, so that a line is an event; without the last setting it would follow the line, too.
_LAYOUT: Final = """\
appender.{name}.layout.type = PatternLayout
appender.{name}.layout.pattern = {{"time":"%d{{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}}{{UTC}}","level":"%level{{lowerCase=true}}",\
"event":"%enc{{%m}}{{JSON}}","logger":"%c{{1}}"%notEmpty{{,"exception":"%enc{{%xEx}}{{JSON}}"}}}}%n
appender.{name}.layout.alwaysWriteExceptions = false
"""
_ROLLING: Final = """\
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {bytes}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = {kept}
appender.file.strategy.fileIndex = min
"""


def layout(name: str) -> str:
    """The layout of an appender of this name."""
    return _LAYOUT.format(name=name)


def rolling(path: Path, bounds: LogBounds) -> str:
    """An appender named `file`: the part's log, with the earlier ones numbered as tandem.infra.logs.files does."""
    return _ROLLING.format(path=escape(str(path)), bytes=bounds.bytes, kept=bounds.kept) + layout("file")
