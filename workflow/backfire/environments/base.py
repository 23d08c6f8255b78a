"""What every kind of environment hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backfire.items import Item


@dataclass(frozen=True)
class Pool:
    """All probe items of an environment, and how many were left out, by reason."""

    items: list[Item]
    notes: Mapping[str, int] = field(default_factory=dict)
