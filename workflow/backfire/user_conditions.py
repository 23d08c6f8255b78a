"""Conditions of the user's own: a Jinja template or a Python function that the config names.

    conditions:
      my_note: {template: my_note.j2}
      my_function: {function: my_conditions.py:write}

A template writes what follows the history, message by message; a line that holds `[assistant]`
or `[user]` alone begins one, and text before the first such line is a user message. It knows the
fields of `items.Item` by their names. A function is called with the item, and with the `Context`
if it takes two arguments, and returns all messages.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template, TemplateError, UndefinedError, meta

from backfire.conditions import CONDITIONS, Condition, Context, Message, before
from backfire.errors import UserError
from backfire.items import Item

Entry = Mapping[str, str]
"""A condition in the config: `template` or `function`, and perhaps a `summary`."""

FIELDS = tuple(field.name for field in fields(Item))
"""The names that a template knows."""

ROLES = ("system", "user", "assistant", "tool")

_ENVIRONMENT = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
_MARKER = re.compile(r"^\[(assistant|user)\][ \t]*\n?", re.MULTILINE)


class Lacking(Exception):
    """An item lacks something that a template names; the message says what."""


def register(entries: Mapping[str, Entry]) -> None:
    """Register the conditions of a config; their files are read when they are first written."""
    for name, entry in entries.items():
        summary = entry.get("summary", f"the user's own, from {_path(entry)}")
        CONDITIONS[name] = Condition(name, summary, _Writer(name, entry))


def digests(entries: Mapping[str, Entry]) -> dict[str, dict[str, str]]:
    """Each entry with the hash of its file: what a rule's result depends on."""
    return {
        name: {
            **{key: entry[key] for key in sorted(entry) if key != "summary"},
            "sha256": hashlib.sha256(_path(entry).read_bytes()).hexdigest(),
        }
        for name, entry in sorted(entries.items())
    }


def faults(name: str, entry: Entry, examples: Iterable[Item]) -> Iterator[str]:
    """What is wrong with a condition, found by writing it for the examples.

    It is at fault too where it writes nothing for any of them.
    """
    try:
        writer = _Writer(name, entry)
        reasons = [writer.reason_for_nothing(item, _AnyModel()) for item in examples]
    except UserError as error:
        yield str(error)
        return
    if reasons and None not in reasons:
        yield f"conditions.{name}: {_path(entry)}: nothing is written: {reasons[0]}"


@dataclass(frozen=True)
class _Writer:
    """The writing function of a condition in the config."""

    name: str
    entry: Entry

    def __call__(self, item: Item, ctx: Context) -> list[Message] | None:
        try:
            return self._write(item, ctx)
        except Lacking:
            return None

    def reason_for_nothing(self, item: Item, ctx: Context) -> str | None:
        """Why the condition is absent for an item, or None where it is not."""
        try:
            written = self._write(item, ctx)
        except Lacking as lacking:
            return f"item {item.item_id!r}: {lacking}"
        return f"item {item.item_id!r} gives None" if written is None else None

    def _write(self, item: Item, ctx: Context) -> list[Message] | None:
        try:
            messages = self._written(item, ctx)
        except (Lacking, UserError):
            raise
        except Exception as error:  # it is the user's code: whatever it raises is theirs to mend
            what = f"{_line(error, _path(self.entry))}{_reason(error)}"
            raise self._mistake(f"item {item.item_id!r}: {what}") from error
        if messages is None:
            return None
        wrong = _wrong_form(messages)
        if wrong is not None:
            raise self._mistake(f"item {item.item_id!r}: {wrong}")
        return [{"role": m["role"], "content": m["content"]} for m in messages]

    @cached_property
    def _written(self) -> Callable[[Item, Context], Any]:
        """The user's file as a function."""
        path = _path(self.entry)
        try:
            if "template" in self.entry:
                return _template(path.read_text(encoding="utf-8"))
            return _function(path, self.entry["function"].rpartition(":")[2])
        except OSError as error:
            where = f"paths start from {Path.cwd()}"
            raise self._mistake(f"cannot be read ({error.strerror}); {where}") from error
        except UnicodeDecodeError as error:
            raise self._mistake("found bytes that are not UTF-8; UTF-8 is right") from error
        except UserError as error:
            raise self._mistake(str(error)) from error

    def _mistake(self, what: str) -> UserError:
        return UserError(f"conditions.{self.name}: {_path(self.entry)}: {what}")


def _path(entry: Entry) -> Path:
    if "template" in entry:
        return Path(entry["template"])
    return Path(entry["function"].rpartition(":")[0])


class _Part(NamedTuple):
    """A message of a template: its role, and what renders its text."""

    role: str
    template: Template


def _template(source: str) -> Callable[[Item, Context], list[Message] | None]:
    """A template as a writing function. A message that renders to nothing is left out."""
    parts = [_part(role, text, source) for role, text in _split(source)]

    def write(item: Item, ctx: Context) -> list[Message] | None:
        known = {name: getattr(item, name) for name in FIELDS}
        given = {name: value for name, value in known.items() if value is not None}
        try:
            texts = [(part.role, part.template.render(given).strip()) for part in parts]
        except UndefinedError as error:
            raise Lacking(_lack(error, item)) from error
        messages: list[Message] = [{"role": role, "content": text} for role, text in texts if text]
        if not messages:
            raise Lacking("every message is empty")
        return [*before(item), *messages]

    return write


def _split(source: str) -> Iterator[tuple[str, str]]:
    """The roles and the texts of a template's messages, in order."""
    first, *rest = _MARKER.split(source)
    if first.strip():
        yield "user", first
    yield from zip(rest[::2], rest[1::2], strict=True)


def _part(role: str, text: str, source: str) -> _Part:
    start = source[: source.index(text)].count("\n")
    try:
        tree = _ENVIRONMENT.parse(text)
        template = _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        line = start + (getattr(error, "lineno", None) or 1)
        raise UserError(f"line {line}: {error.message}") from error
    for name in sorted(meta.find_undeclared_variables(tree)):
        if name not in FIELDS:
            raise UserError(f"unknown name {name!r}; {_suggest(name, FIELDS)}")
    return _Part(role, template)


def _lack(error: UndefinedError, item: Item) -> str:
    """What an item lacks, in one line."""
    names = ", ".join(item.observations)
    return f"{str(error).splitlines()[0]} (its observations are {names})"


def _function(path: Path, name: str) -> Callable[[Item, Context], Any]:
    """A function of a Python file as a writing function."""
    spec = importlib.util.spec_from_file_location(f"backfire_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError("no Python file; FILE.py:FUNCTION is right")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError:
        raise
    except Exception as error:  # the user's code again
        raise UserError(f"{_line(error, path)}cannot be imported: {_reason(error)}") from error
    function = getattr(module, name, None)
    if not inspect.isfunction(function):
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UserError(f"no function {name!r}; {_suggest(name, defined)}")
    takes_context = len(inspect.signature(function).parameters) > 1
    return function if takes_context else lambda item, ctx: function(item)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _line(error: Exception, path: Path) -> str:
    """The line of the user's file at which it failed, where that is known."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"line {lines[-1]}: " if lines else ""


def _wrong_form(messages: Any) -> str | None:
    """What is wrong with the form of the messages, if anything is."""
    right = "a list of {'role': ..., 'content': ...} is right"
    if not isinstance(messages, list | tuple) or not messages:
        return f"found {_shown(messages)}; {right}"
    for number, message in enumerate(messages):
        at = f"message {number + 1}"
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            return f"{at} is {_shown(message)}; {right}"
        role, content = message["role"], message["content"]
        if role not in ROLES:
            return f"{at} has the role {_shown(role)}; one of {', '.join(ROLES)} is right"
        if role == "system" and number > 0:
            return f"{at} has the role 'system'; only the first message may have it"
        if not isinstance(content, str) or not (content.strip() or role == "system"):
            return f"{at} has the content {_shown(content)}; text that is not empty is right"
    if messages[-1]["role"] == "assistant":
        return "the last message is the assistant's; the scored call follows, so it must not be"
    return None


def _shown(value: Any) -> str:
    text = repr(value).splitlines()[0] if repr(value) else ""
    return text if len(text) <= 60 else f"{text[:60]}..."


def _suggest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"


class _AnyModel:
    """A stand-in for a model, with all that a condition may ask for."""

    has_tool_role = True

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def native_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None
