"""Types of columns as annotations of an event type: names of PostgreSQL, Flink and Spark, nested as any of them writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tandem.views.definition_text import literal
from tandem.views.errors import listed
from tandem.views.source.event import DECIMAL_DIGITS
from tandem.views.sql_definitions.literals import constant
from tandem.views.sql_definitions.statements import Fragment, is_name

_PLAIN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), "bool"),
    **dict.fromkeys(("INTEGER", "INT", "BIGINT", "SMALLINT", "TINYINT", "LONG"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), "float"),
    **dict.fromkeys(("TEXT", "STRING", "VARCHAR"), "str"),
    **dict.fromkeys(("BYTES", "BYTEA", "BLOB", "BINARY", "VARBINARY"), "bytes"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "DATETIME"), "datetime"),
    "DATE": "date",
    "TIME": "time",
    "INTERVAL": "timedelta",
    "UUID": "UUID",
}
_DECIMALS: Final = ("DECIMAL", "NUMERIC")
_NESTED: Final = ("ARRAY", "MAP", "STRUCT", "ROW", "ENUM")
_NAMES: Final = (*_PLAIN, *_DECIMALS, *_NESTED)
_ZONES: Final = (("WITH", "TIME", "ZONE"), ("WITH", "LOCAL", "TIME", "ZONE"))


@dataclass
class Classes:
    """The texts of the classes of structs, inner ones first; `taken` are the names that no class may have."""

    taken: set[str]
    texts: list[list[str]] = field(default_factory=list)

    def append(self, words: Sequence[str], base: str, members: Sequence[str], *, doc: str = "") -> str:
        """Append a class with these members, as `name: annotation = default`; returns its name, made of the words."""
        plain = "".join(part[:1].upper() + part[1:] for word in words for part in word.split("_"))
        name, number = plain, 2
        while name in self.taken:
            name, number = f"{plain}{number}", number + 1
        self.taken.add(name)
        defaults = [" = " in member for member in members]
        # A field with a default is followed by one without.
        keywords = ", kw_only=True" if sorted(defaults) != defaults else ""
        opening = [f"    {doc}", ""] if doc else []
        self.texts.append([f"class {name}({base}{keywords}):", *opening, *(f"    {member}" for member in members)])
        return name


@dataclass(frozen=True)
class ColumnType:
    """A type: the annotation, with what it was derived from for messages."""

    annotation: str
    name: str


def with_round_brackets(part: Fragment) -> Fragment:
    """The part with round brackets in place of < and >, which are brackets among types."""
    words: list[Token] = []
    for word in part.words:
        if word.token_type == TokenType.LT:
            words.append(_copy(word, "(", TokenType.L_PAREN, word.start))
        elif word.text in (">", ">>", ">>>") and word.token_type != TokenType.STRING:
            words += [_copy(word, ")", TokenType.R_PAREN, word.start + number) for number in range(len(word.text))]
        elif word.text == "<>" and word.token_type == TokenType.NEQ:
            raise part.script.fault("a type is missing between < and >", word.start)
        else:
            words.append(word)
    return Fragment(part.script, tuple(words), part.after)


def column_type(part: Fragment, classes: Classes, place: Sequence[str]) -> tuple[ColumnType, Fragment]:
    """The type at the beginning of a part, and what follows it. Raises DefinitionError.

    `place` are the names by which a struct's class is called.
    """
    if not part.words:
        raise part.fault(f"a type is missing; types: {', '.join(_NAMES)}")
    name, after = part.words[0].text.upper(), 1
    if name not in _NAMES or not is_name(part.words[0]):
        raise part.fault(f"type {part.words[0].text} is unknown; types: {listed(name, _NAMES, limit=40)}")
    inner: Fragment | None = None
    if part.begins("(", at=1):
        inner, after = part.brackets(1)
    if name == "DOUBLE" and part.begins("PRECISION", at=1):
        after = 2
    for zone in _ZONES:
        if name == "TIMESTAMP" and part.begins(*zone, at=after):
            after += len(zone)
    if name == "TIME" and part.begins("WITHOUT", "TIME", "ZONE", at=after):
        after += 3
    if name == "TIME" and part.begins("WITH", at=after):
        raise part.cut(after).fault("a time of day has no zone: TIME")
    if part.begins("WITHOUT", at=after):
        raise part.cut(after).fault("a time has a zone: TIMESTAMP; OPTIONS (zone = 'Europe/Oslo') reads times without one")
    kind = ColumnType(_annotation(part, name, inner, classes, place), name)
    while part.begins("[", "]", at=after):
        kind, after = ColumnType(f"list[{kind.annotation}]", "ARRAY"), after + 2
    return kind, part.cut(after)


def field_name(part: Fragment, at: int = 0) -> str:
    """The name of a column or of a member of a struct. Raises DefinitionError if no field can have it."""
    name = part.name(at)
    if name is None:
        raise part.fault("a column begins with its name")
    if not name.isidentifier() or name.startswith("_") or iskeyword(name):
        raise part.fault(
            f"{name!r} cannot name a field; take another name, with OPTIONS (name = {name!r}) for the name in records"
        )
    return name


def _annotation(part: Fragment, name: str, inner: Fragment | None, classes: Classes, place: Sequence[str]) -> str:
    if name in _DECIMALS:
        numbers = [] if inner is None else [constant(item) for item in inner.split(",")]
        if len(numbers) != 2 or not all(isinstance(number, int) for number in numbers):
            raise part.fault(f"a {name} declares its digits and those after the point: {name}(38, 2)")
        if not 0 <= numbers[1] <= numbers[0] <= DECIMAL_DIGITS:
            raise part.fault(f"a {name} has at most {DECIMAL_DIGITS} digits, and at most all of them after the point")
        return f"Annotated[Decimal, Scale({numbers[1]})]"
    if name not in _NESTED:
        if inner is None or _PLAIN[name] in ("datetime", "time"):  # TIMESTAMP(3): times are of microseconds, so none is cut
            return _PLAIN[name]
        if name != "VARCHAR":
            raise inner.fault(f"{name} takes no length")
        return f"Annotated[str, msgspec.Meta(max_length={constant(inner)})]"
    if inner is None or not inner.words:
        raise part.fault(f"{name} declares what it holds, for example {_EXAMPLES[name]}")
    parts = inner.split(",")
    if name == "ENUM":
        return f"Literal[{', '.join(literal(constant(item)) for item in parts)}]"
    if name == "ARRAY":
        return f"list[{_only(inner, classes, place)}]"
    if name == "MAP":
        if len(parts) != 2:
            raise part.fault(f"MAP declares keys and values, for example {_EXAMPLES[name]}")
        if (keys := _only(parts[0], classes, place)) != "str":
            raise parts[0].fault(f"the keys of a map are texts, as in {_EXAMPLES[name]}; got {keys}")
        return f"dict[str, {_only(parts[1], classes, place)}]"
    return classes.append(place, "msgspec.Struct, frozen=True", [_member(item, classes, place) for item in parts])


def _only(part: Fragment, classes: Classes, place: Sequence[str]) -> str:
    kind, rest = column_type(part, classes, place)
    if rest.words and not (rest.begins("NOT", "NULL") and len(rest.words) == 2):
        raise rest.fault(f"{rest.text} does not belong to a type")
    return kind.annotation


def _member(part: Fragment, classes: Classes, place: Sequence[str]) -> str:
    """A member of a struct: `name type [NOT NULL]`, with or without a colon after the name."""
    name = field_name(part)
    kind, rest = column_type(part.cut(2 if part.begins(":", at=1) else 1), classes, [*place, name])
    if rest.begins("NOT", "NULL") and len(rest.words) == 2:
        return f"{name}: {kind.annotation}"
    if rest.words:
        raise rest.fault(f"{rest.text} does not belong to a member of a struct")
    return f"{name}: {kind.annotation} | None = None"


_EXAMPLES: Final = {
    "ARRAY": "ARRAY<TEXT>, or TEXT[]",
    "MAP": "MAP<TEXT, BIGINT>",
    "STRUCT": "STRUCT<street TEXT NOT NULL, city TEXT>",
    "ROW": "ROW<street TEXT NOT NULL, city TEXT>",
    "ENUM": "ENUM('shop', 'web')",
}


def _copy(word: Token, text: str, kind: TokenType, start: int) -> Token:
    return Token(kind, text, word.line, word.col, start, start)
