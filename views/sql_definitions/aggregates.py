"""Aggregates of SQL as measures: those of the standard under their names, the others under the names of definitions.py."""

import re
from collections.abc import Mapping
from inspect import Parameter, signature
from types import FunctionType
from typing import Any, Final

from tandem.views.errors import DefinitionError
from tandem.views.measures import measure_registry
from tandem.views.measures.measure import Measure
from tandem.views.measures.sequences.row_pattern import PatternError
from tandem.views.sql_definitions.literals import constant
from tandem.views.sql_definitions.statements import Fragment, in_quotes, is_name

_FUNCTIONS: Final[Mapping[str, FunctionType]] = {
    name: function
    for name, function in vars(measure_registry).items()
    if isinstance(function, FunctionType) and name != "derived"
}
_OF_SQL: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "sum": ("total", {}),
    "avg": ("mean", {}),
    "min": ("minimum", {}),
    "max": ("maximum", {}),
    "every": ("bool_and", {}),
    "corr": ("correlation", {}),
    "stddev_samp": ("stddev", {}),
    "stddev_pop": ("stddev", {"population": True}),
    "var_samp": ("variance", {}),
    "var_pop": ("variance", {"population": True}),
    "covar_samp": ("covariance", {}),
    "covar_pop": ("covariance", {"population": True}),
}
NAMES: Final = frozenset((*_FUNCTIONS, *_OF_SQL))
"""The functions that are measures."""

_EXPRESSION: Final = (str, str | None)
"""The annotations of parameters that are expressions; others are constants."""

_FIELD: Final = re.compile(r"[A-Za-z_]\w*|\"[^\"]*\"")


def measure_of(part: Fragment) -> Measure | None:
    """The measure, if the part is one aggregate, with or without FILTER (WHERE ...). Raises DefinitionError."""
    condition, call = None, part
    for number in part.outside(lambda word: word.text.upper() == "FILTER" and not in_quotes(word)):
        if number and part.begins("(", at=number + 1):
            inner, after = part.brackets(number + 1)
            if after != len(part.words) or not inner.begins("WHERE") or len(inner.words) < 2:
                raise part.cut(number).fault("a filter of an aggregate is FILTER (WHERE condition)")
            condition, call = inner.cut(1), part.cut(0, number)
    called = call.call()
    if called is None or called[0].lower() not in NAMES:
        return None
    name, arguments = called[0].lower(), called[1]
    if name == "count":
        return _count(call, arguments, condition)
    return _measure(call, name, arguments, condition)


def calls_of_measures(part: Fragment) -> list[Fragment]:
    """The calls of measures in an expression, outer ones alone, with their filters."""
    calls, number = [], 0
    while number < len(part.words) - 1:
        word = part.words[number]
        if is_name(word) and not in_quotes(word) and word.text.lower() in NAMES and part.begins("(", at=number + 1):
            _, after = part.brackets(number + 1)
            if part.begins("FILTER", "(", at=after):
                _, after = part.brackets(after + 1)
            calls.append(part.cut(number, after))
            number = after
        else:
            number += 1
    return calls


def _count(call: Fragment, arguments: list[Fragment], condition: Fragment | None) -> Measure:
    """count(*) and count(1) count events, count(x) those with a value."""
    text = None if condition is None else condition.text
    if arguments and arguments[0].begins("DISTINCT"):
        of = arguments[0].cut(1).text
        raise call.fault(
            f"count(DISTINCT {of}) keeps every value; write approx_count_distinct({of}), or count_distinct({of}, limit => 1000), "
            "which is exact up to a limit"
        )
    if len(arguments) > 1:
        raise call.fault("count takes one expression, or a star: count(*)")
    if arguments and arguments[0].text not in ("*", "1"):
        of = arguments[0].text
        there = f"{of if _FIELD.fullmatch(of) else f'({of})'} IS NOT NULL"
        text = there if text is None else f"({text}) AND {there}"
    return measure_registry.count(filter=text)


def _measure(call: Fragment, name: str, arguments: list[Fragment], condition: Fragment | None) -> Measure:
    """The measure that a call makes. Raises DefinitionError if the arguments do not fit."""
    called, options = _OF_SQL.get(name, (name, {}))
    function = _FUNCTIONS[called]
    parameters = dict(signature(function).parameters)
    for fixed in ("filter", "of", *options):
        parameters.pop(fixed, None)
    places = [key for key, parameter in parameters.items() if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    values: dict[str, Any] = {}
    written: dict[str, Fragment] = {}
    for number, argument in enumerate(arguments):
        key, value = _option(argument)
        if key is None:
            if number >= len(places):
                raise argument.fault(f"{name} has the form {_form(name, parameters)}")
            key = places[number]
        if key not in parameters or key in values:
            raise argument.fault(f"{name} has the form {_form(name, parameters)}")
        for word in ("DISTINCT", "ORDER"):
            if value.outside(lambda each, word=word: each.text.upper() == word and not in_quotes(each)):  # type: ignore[misc]
                raise value.fault(f"{word} is not possible in {name}")
        written[key] = value
        values[key] = value.text if parameters[key].annotation in _EXPRESSION else constant(value)
    if [key for key, parameter in parameters.items() if parameter.default is Parameter.empty and key not in values]:
        raise call.fault(f"{name} has the form {_form(name, parameters)}")
    try:
        measure: Measure = function(**values, **options, filter=None if condition is None else condition.text)
    except PatternError as error:
        # After the quote that begins the text.
        raise written["pattern"].script.fault(error.sentence, written["pattern"].start + 1 + error.place) from error
    except (DefinitionError, TypeError) as error:
        raise call.fault(str(error)) from error
    return measure


def _option(argument: Fragment) -> tuple[str | None, Fragment]:
    """The name and the value of `name => value`; no name for a value alone."""
    if argument.name() is not None and (argument.begins("=>", at=1) or argument.begins(":=", at=1)):
        return argument.words[0].text.lower(), argument.cut(2)
    return None, argument


def _form(name: str, parameters: Mapping[str, Parameter]) -> str:
    """The call with the names of its arguments; those that may be absent with their values."""
    shown = [
        (key if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD else f"{key} => ...")
        if parameter.default is Parameter.empty
        else f"{key} => {str(parameter.default).upper() if isinstance(parameter.default, bool) else parameter.default}"
        for key, parameter in parameters.items()
    ]
    return f"{name}({', '.join(shown)})"
