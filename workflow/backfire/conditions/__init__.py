"""How a failure is written into a transcript.

A condition is one function `(item, ctx) -> messages`, registered under its name; it returns
None for an item, or a model, that lacks what it needs. To add one, write it in the module
here that it belongs to and name it in the config.
"""

from __future__ import annotations

# The order in which tables print them.
# isort: off
from backfire.conditions import core, variants, controls, masks, formats, wordings

# isort: on
from backfire.conditions.masks import LADDER
from backfire.conditions.registry import (
    CONDITIONS,
    CORE,
    Condition,
    Context,
    Kind,
    Message,
    Writer,
    condition,
)
from backfire.conditions.wordings import WORDINGS
from backfire.conditions.writing import (
    INSTRUCTION,
    attempt,
    before,
    describe,
    instructed,
    turns,
)

ALL_CANDIDATES = frozenset(each.name for each in CONDITIONS.values() if each.every_candidate)
"""The conditions under which every candidate is scored."""

__all__ = [
    "ALL_CANDIDATES",
    "CONDITIONS",
    "CORE",
    "INSTRUCTION",
    "LADDER",
    "WORDINGS",
    "Condition",
    "Context",
    "Kind",
    "Message",
    "Writer",
    "attempt",
    "before",
    "condition",
    "controls",
    "core",
    "describe",
    "formats",
    "instructed",
    "masks",
    "turns",
    "variants",
    "wordings",
]
