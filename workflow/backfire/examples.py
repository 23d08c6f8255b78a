"""An item of each built-in kind of environment, to try a user's condition on before any run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfire.errors import UserError
from backfire.items import Item, Turn

_CALL = 'send_message(to="Ana Ruiz", subject="Lunch", body="At noon?")'
_ERROR = "Error: the argument 'to' of send_message must be an email address, not 'Ana Ruiz'."
_PROGRAM = "def double(x):\n    return x * 3\n"
_TRACEBACK = "Traceback (most recent call last):\nAssertionError: double(2) is 6, not 4"

EXAMPLES: dict[str, Item] = {
    "toolshed": Item(
        item_id="example",
        task_id="example",
        template="example",
        step=2,
        operator="name_for_email",
        error_family="format_error",
        tool="send_message",
        system="You work by calling tools.",
        goal="Ask Ana Ruiz to lunch at noon.",
        history=(Turn('find_contact(name="Ana Ruiz")', "OK: found contact Ana Ruiz: ana@ex.org"),),
        failed_action=_CALL,
        gold_action='send_message(to="ana@ex.org", subject="Lunch", body="At noon?")',
        distractors=('send_message(to="bo@ex.org", subject="Lunch", body="Hi")', "finish()"),
        observations={
            "fail": _ERROR,
            "terse": "Error: format error.",
            "verbose": f"{_ERROR} Nothing has changed.",
            "echo": f"{_ERROR} The call was: {_CALL}",
            "succ": "OK: sent message 'Lunch' to Ana Ruiz.",
            "neut": "Received.",
        },
        other=Turn('send_message(to="bo")', "Error: no contact 'bo' was found."),
        unrelated=Turn('read_file(path="a.txt")', "Error: no file 'a.txt' was found."),
        error={
            "family": "format_error",
            "tool": "send_message",
            "field": "to",
            "value": "Ana Ruiz",
            "expected": "an email address",
        },
    ),
    "coderepair": Item(
        item_id="example",
        task_id="example",
        operator="wrong_constant",
        error_family="test_failure",
        system="You write Python programs.",
        goal="Write double(x), which returns twice x.",
        history=(),
        failed_action=_PROGRAM,
        gold_action="def double(x):\n    return x * 2\n",
        distractors=("def double(x):\n    return x\n", "def double(y):\n    return x * 2\n"),
        observations={
            "fail": _TRACEBACK,
            "terse": "AssertionError: double(2) is 6, not 4",
            "verbose": f"{_TRACEBACK}\n\nThe program failed test 1 of 3.",
            "echo": f"{_TRACEBACK}\n\nThe program was:\n\n{_PROGRAM}",
            "succ": "OK: the program passed all 3 tests.",
            "neut": "Received.",
        },
        other=Turn("def double(x):\n    return x\n", "AssertionError: double(2) is 2, not 4"),
        unrelated=Turn("def head(a):\n    return a[1]\n", "IndexError: list index out of range"),
        error={
            "family": "test_failure",
            "type": "AssertionError",
            "message": "double(2) is 6, not 4",
            "line": None,
            "source_line": None,
            "test": 1,
            "quotes_submission": False,
        },
    ),
}
"""By kind. What is set here is what an item of the kind has set."""


def example_of(environment: Mapping[str, Any]) -> Item | None:
    """An item such as an environment of the config has; None where it cannot be told.

    Of a file of the user's own it is the first item, and None where that one is at fault.
    """
    kind = environment["kind"]
    if kind != "items":
        return EXAMPLES.get(kind)
    from backfire.environments.items.pool import first_item

    try:
        return first_item(environment["path"])
    except (KeyError, UserError):
        return None  # the mistake is named where the whole file is read
