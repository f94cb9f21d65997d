"""The words of a text of SQL with their places, and parts of it: what is between two commas, or in brackets."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tandem.views.errors import DefinitionError

_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = frozenset(_OPEN.values())
_TEXTS: Final = frozenset({TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING})
_QUOTES: Final = "'\"$/"
_NAMELESS: Final = frozenset({TokenType.NUMBER, *_TEXTS})


@dataclass(frozen=True)
class Script:
    """A text of SQL, and the name of its file in messages."""

    text: str
    file: str

    def fault(self, message: str, start: int) -> DefinitionError:
        """The error, with the place before the message."""
        line, column = line_and_column(self.text, start)
        return DefinitionError(f"{self.file}:{line}:{column}: {message}")

    def statements(self) -> Iterator["Fragment"]:
        """The statements, without those that are empty."""
        try:
            words = [part_ for word in DuckDB().tokenize(self.text) for part_ in self._single(word)]
        except TokenError as error:
            raise self.fault("a quote or a comment is not closed", self._open_quote()) from error
        if words and (unpaired := _lone_bracket(words)) is not None:
            raise self.fault(f"{unpaired.text!r} has no partner", unpaired.start)
        yield from (part for part in Fragment(self, tuple(words)).split(";") if part.words)

    def _open_quote(self) -> int:
        """Where the quote or comment opens that is not closed: what is before it has words."""
        for start in range(len(self.text) - 1, 0, -1):
            if self.text[start] in _QUOTES:
                try:
                    DuckDB().tokenize(self.text[:start])
                except TokenError:
                    continue
                return start
        return 0

    def _single(self, word: Token) -> list[Token]:
        """The words of a token: sqlglot takes some together, such as GROUP BY."""
        text = self.text[word.start : word.end + 1]
        if in_quotes(word) or len(text.split()) == 1:
            return [word]
        return [
            Token(TokenType.VAR, match[0], word.line, word.col, word.start + match.start(), word.start + match.end() - 1)
            for match in re.finditer(r"\S+", text)
        ]


@dataclass(frozen=True)
class Fragment:
    """Consecutive words of a script; `after` is where an empty part would be."""

    script: Script
    words: tuple[Token, ...]
    after: int = 0

    @cached_property
    def text(self) -> str:
        """The part as it is written."""
        return self.script.text[self.start : self.words[-1].end + 1] if self.words else ""

    @property
    def start(self) -> int:
        """Where it begins in the script."""
        return self.words[0].start if self.words else self.after

    def fault(self, message: str) -> DefinitionError:
        """The error at the part's place."""
        return self.script.fault(message, self.start)

    def cut(self, first: int, last: int | None = None) -> "Fragment":
        """The words from `first` to before `last`."""
        words = self.words[first:last]
        end = self.words[min(first, len(self.words)) - 1].end + 1 if self.words else self.after
        return Fragment(self.script, words, end)

    def split(self, mark: str) -> list["Fragment"]:
        """The parts between marks that are in no bracket: none of an empty part."""
        parts, first = [], 0
        for number in [*self.outside(lambda word: is_word(word, mark)), len(self.words)]:
            parts.append(self.cut(first, number))
            first = number + 1
        return parts if self.words else []

    def outside(self, test: Callable[[Token], bool]) -> list[int]:
        """The numbers of the words outside of brackets that pass the test."""
        depth, numbers = 0, []
        for number, word in enumerate(self.words):
            sign = "" if in_quotes(word) else word.text
            depth -= sign in _CLOSE
            if not depth and test(word):
                numbers.append(number)
            depth += sign in _OPEN
        return numbers

    def brackets(self, first: int) -> tuple["Fragment", int]:
        """What is in the brackets that open at a word, and the number of the word after them."""
        depth, number = 0, first
        for number in range(first, len(self.words)):
            sign = "" if in_quotes(self.words[number]) else self.words[number].text
            depth += (sign in _OPEN) - (sign in _CLOSE)
            if not depth:
                break
        return self.cut(first + 1, number), number + 1

    def begins(self, *words: str, at: int = 0) -> bool:
        """Whether it has these words, in any case and unquoted, from the one of this number on."""
        there = self.words[at : at + len(words)]
        return len(there) == len(words) and all(map(is_word, there, words))

    def name(self, at: int = 0) -> str | None:
        """The name that the word of this number is: a quoted one, or any word of letters; None if it is another word."""
        word = self.words[at] if at < len(self.words) else None
        return None if word is None or not is_name(word) else word.text

    def call(self) -> tuple[str, list["Fragment"]] | None:
        """The function's name and arguments, if the part is one call and nothing else."""
        if len(self.words) < 3 or not is_name(self.words[0]) or in_quotes(self.words[0]) or not self.begins("(", at=1):
            return None
        inner, after = self.brackets(1)
        return (self.words[0].text, inner.split(",")) if after == len(self.words) else None


def in_quotes(word: Token) -> bool:
    """Whether a word is a text or a name in quotes, so that it is neither a keyword nor a bracket."""
    return word.token_type in _TEXTS or word.token_type == TokenType.IDENTIFIER


def is_word(word: Token, text: str) -> bool:
    """Whether a word is this one, in any case, and not in quotes."""
    return not in_quotes(word) and word.text.upper() == text.upper()


def is_name(word: Token) -> bool:
    """Whether a word can be a name: one in double quotes, or letters, digits and underscores."""
    return word.token_type == TokenType.IDENTIFIER or (word.token_type not in _NAMELESS and word.text.isidentifier())


def line_and_column(text: str, start: int) -> tuple[int, int]:
    """The line and the column of a place in a text, both from 1 on."""
    before = text[:start]
    return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1


def _lone_bracket(words: Sequence[Token]) -> Token | None:
    """The first bracket without its partner, or None."""
    opened: list[Token] = []
    for word in words:
        sign = "" if in_quotes(word) else word.text
        if sign in _OPEN:
            opened.append(word)
        elif sign in _CLOSE:
            if not opened or _OPEN[opened[-1].text] != sign:
                return word
            opened.pop()
    return opened[-1] if opened else None
