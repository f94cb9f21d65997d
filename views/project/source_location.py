"""Places in a project's files: files and lines for error messages, found in the syntax trees."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from inspect import signature
from traceback import walk_tb
from typing import Final

from tandem.views import public
from tandem.views.errors import DefinitionError, listed
from tandem.views.project.call_forms import builtin_form, calls, class_form, operation_form, right_form
from tandem.views.project.isolated_import import DEFINITIONS, SQL_DEFINITIONS, ProjectLoader
from tandem.views.project.python_code import parsed
from tandem.views.project.unknown_names import unknown_name
from tandem.views.source.source import Source
from tandem.views.view import View

STORED: Final = "<release "
"""How the names of files begin in code that was loaded from stored files."""
_WRONG_ARGUMENT = re.compile(r"(?:(\w+)\.__init__|(\w+))\(\) got an unexpected keyword argument '(\w+)'")
_WRONG_CALL = re.compile(r"(?:(\w+)\.__init__|(\w+))\(\) (?:takes|missing) ")
_WRONG_OPERATION = re.compile(r"unsupported operand|not supported between")
_MISSING_FIELD = re.compile(r"Missing required argument '\w+'")
_LATE_FIELD = re.compile(r"Required field '(\w+)' cannot follow optional fields")
_WRONG_SOURCE = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'definitions'")
_WRONG_IMPORT = re.compile(r"cannot import name '(\w+)' from '(views|tandem)'")


def place_of_variable(loader: ProjectLoader, name: str) -> str:
    """`file:line` of the module-level assignment to a variable; the file alone if it is bound in another way."""
    for module in (DEFINITIONS, *loader.modules):
        for statement in _statements(loader, module):
            if name in _targets(statement):
                return loader.place(loader.path_of(module) or "", statement.lineno)
    return f"{DEFINITIONS}.py"


def explained(loader: ProjectLoader, error: BaseException) -> DefinitionError:
    """An exception of a project's code as one sentence: file, line, definition, the fault, and what is valid."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return DefinitionError(f"{loader.place(_relative(loader, error.filename), error.lineno or 1)}: {error.msg}")
    places = [
        (_relative(loader, frame.f_code.co_filename), line)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(f"{loader.origin}/")
    ]
    if not places:
        return DefinitionError(_sentence(loader, error))
    file, line = places[-1]
    form = _right_form(loader, error, file, line)
    return DefinitionError(f"{loader.place(file, line)}{_definition_at(loader, file, line)}: {form or _sentence(loader, error)}")


def place_in_release(error: BaseException) -> str:
    """`file:line` of the newest frame of a stored project's code through which an exception went; empty if there is none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    places = [f"{name.partition('>/')[2]}:{line}" for name, line in frames if name.startswith(STORED)]
    return places[-1] if places else ""


def check_imports(loader: ProjectLoader) -> None:
    """Refuse an import of a project's module inside a function: the module cannot be imported when the function runs."""
    roots = {path.split("/")[0].removesuffix(".py") for path in loader.files}
    for module in loader.modules:
        for function in ast.walk(parsed(loader.get_source(module))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in ast.walk(function):
                    if isinstance(statement, ast.Import | ast.ImportFrom) and _imports(statement) & roots:
                        raise DefinitionError(
                            f"{loader.path_of(module)}:{statement.lineno}: {ast.unparse(statement)!r} is inside a function; "
                            "import the project's own modules at the top of the file"
                        )


def _imports(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """The top-level names of the modules that a statement imports; a relative import is of the project itself."""
    if isinstance(statement, ast.ImportFrom):
        return {(statement.module or "").split(".")[0]} if not statement.level else {DEFINITIONS}
    return {alias.name.split(".")[0] for alias in statement.names}


def _sentence(loader: ProjectLoader, error: BaseException) -> str:
    text = str(error)
    if isinstance(error, DefinitionError):
        return text
    if match := _WRONG_SOURCE.match(text):
        return _wrong_source(loader, match[1])
    if match := _WRONG_IMPORT.match(text):
        offered = vars(public)["__all__"]
        return f"{match[2]} has no {match[1]!r}; it offers: {listed(match[1], offered)}"
    if isinstance(error, TypeError) and (match := _WRONG_ARGUMENT.match(text)):
        name = match[1] or match[2]
        called = getattr(public, name, None)
        if callable(called):
            # Of a class, since versions of Python differ in whether a signature is that of __init__ or of __new__.
            of = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]  # only for its names
            names = [each for each in signature(of).parameters if each != "self"]
            return f"{name} has no parameter {match[3]!r}; parameters: {listed(match[3], names)}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        have = {path.split("/")[0].removesuffix(".py") for path in loader.files} - {DEFINITIONS, "tandem.toml"}
        return f"{text}; the project's own modules: {listed(error.name, sorted(have))}"
    return f"{type(error).__name__}: {text}"


def _wrong_source(loader: ProjectLoader, name: str) -> str:
    """Why a view of definitions.sql has no source, or a rollup no parent, in definitions.py."""
    if SQL_DEFINITIONS in loader.get_source(DEFINITIONS) and any(
        name in _targets(statement) for statement in _statements(loader, DEFINITIONS)
    ):
        return (
            f"definitions.py imports definitions_sql before it defines {name}, of which definitions.sql has a view; write that "
            "view in definitions.py"
        )
    those = [variable for variable, value in vars(loader.modules[DEFINITIONS]).items() if isinstance(value, Source | View)]
    return f"no source or view {name!r} in definitions.sql or definitions.py; those of definitions.py: {listed(name, those)}"


def _right_form(loader: ProjectLoader, error: BaseException, file: str, line: int) -> str | None:
    """What to write in place of a name or a call that Python refused; None if the platform has no advice."""
    module = module_of(file)
    statements = [*_statements(loader, module)]
    written = [call for statement in statements for call in calls(statement, line)]
    if isinstance(error, NameError) and error.name:
        called = any(getattr(call.func, "id", "") == error.name for call in written)
        return unknown_name(error.name, statements, called=called)
    if not isinstance(error, TypeError):
        return None
    if match := _LATE_FIELD.match(str(error)):
        return f"field {match[1]!r} has no default and follows a field that has one; move it up, or give it a default"
    if match := _WRONG_CALL.match(str(error)):
        name = match[1] or match[2]
        if name in vars(public)["__all__"]:
            named = (call for call in written if name in (getattr(call.func, "id", ""), getattr(call.func, "attr", "")))
            return right_form(name, next(named, None))
    names = vars(loader.modules[module]) if module in loader.modules else {}
    if _MISSING_FIELD.match(str(error)):
        return next(filter(None, (class_form(names, call) for call in written)), None)
    if form := next(filter(None, (builtin_form(names, call) for call in written)), None):
        return form
    if _WRONG_OPERATION.search(str(error)):
        return next(filter(None, (operation_form(statement, line) for statement in statements)), None)
    return _call_form(error, written)


def _call_form(error: TypeError, written: Sequence[ast.Call]) -> str | None:
    """How the function of the platform is called that met a value of a wrong type."""
    entered = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
    for call in written:
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name in vars(public)["__all__"] and name in entered:
            return f"{right_form(name, call)}: {error}"
    return None


def _definition_at(loader: ProjectLoader, file: str, line: int) -> str:
    """The source or view that a line defines, as `: view 'page_traffic'`; empty if there is none."""
    for statement in _statements(loader, module_of(file)):
        if statement.lineno <= line <= (statement.end_lineno or line):
            value = getattr(statement, "value", None)
            called = value.func if isinstance(value, ast.Call) else None
            kind = getattr(called, "id", getattr(called, "attr", ""))
            names = _targets(statement)
            if kind in ("Source", "View") and names:
                return f": {kind.lower()} {names[0]!r}"
    return ""


def _statements(loader: ProjectLoader, module: str) -> Iterator[ast.stmt]:
    """The statements of a module that run when it is imported, those inside `if`, `try`, `for` and `with` included."""
    try:
        waiting: list[ast.AST] = [*reversed(_tree(loader.get_source(module)).body)]
    except (ImportError, SyntaxError, ValueError):
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += [
                *reversed([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler)])
            ]


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.Module:
    """The syntax tree of a module's text. Nobody changes it: a project that loads looks up the place of each definition in it."""
    return parsed(text)


def module_of(file: str) -> str:
    """The name of the module in a project's file."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _targets(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _relative(loader: ProjectLoader, filename: str) -> str:
    return filename.removeprefix(f"{loader.origin}/")
