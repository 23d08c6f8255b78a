"""`neut`, `fail` and `abstract` in five other words each: does the wording make the result?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backfire.conditions.registry import Context, Message, Writer, condition
from backfire.conditions.writing import after, noted, record
from backfire.items import Item, Turn

NEUTRAL = ("Noted.", "Input received.", "Message logged.", "Acknowledged.", "Entry recorded.")

FAILURE = (
    "The call failed: {error}",
    "That did not work. {error}",
    "Failure. The system answers: {error}",
    "{error} The request was rejected.",
    "Unsuccessful. Reason given: {error}",
)

DESCRIPTION = (
    "A previous {what} did not succeed ({family}).",
    "For your information: one {what} was rejected earlier, with the error type '{family}'.",
    "Earlier, a {what} ended in an error: {family}.",
    "Status: the last {what} was unsuccessful. Kind of error: {family}.",
    "The system reports that a {what} went wrong ({family}).",
)


def neutral_words(item: Item, words: str) -> list[Message] | None:
    return after(item, Turn(item.failed_action, words))


def failing_words(item: Item, words: str) -> list[Message] | None:
    """The standard error's own message in another frame."""
    failed = record(item, "fail")
    if failed is None:
        return None
    error = failed.observation.removeprefix("Error: ")
    return after(item, Turn(failed.action, words.format(error=error[:1].upper() + error[1:])))


def describing_words(item: Item, words: str) -> list[Message] | None:
    if item.error_family is None:
        return None
    what = "attempt" if item.tool is None else f"call to {item.tool}"
    return noted(item, words.format(what=what, family=item.error_family.replace("_", " ")))


WORDINGS: dict[str, tuple[str, ...]] = {}
"""By condition, the names of its other wordings."""


def _register(
    name: str, wordings: Sequence[str], write: Callable[[Item, str], list[Message] | None]
) -> None:
    names = []
    for number, words in enumerate(wordings, start=1):
        summary = f"{name} in other words: {words}"
        condition(f"{name}_w{number}", summary, kind="wording")(_writer(write, words))
        names.append(f"{name}_w{number}")
    WORDINGS[name] = tuple(names)


def _writer(write: Callable[[Item, str], list[Message] | None], words: str) -> Writer:
    def write_words(item: Item, ctx: Context) -> list[Message] | None:
        return write(item, words)

    return write_words


_register("neut", NEUTRAL, neutral_words)
_register("fail", FAILURE, failing_words)
_register("abstract", DESCRIPTION, describing_words)
