"""The exact prompts of an item, as the model sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from backfire.conditions import CONDITIONS, Context, Message
from backfire.errors import UserError
from backfire.items import Item


class Renderer(Context, Protocol):
    """What is asked of a model's chat: to render, and what conditions ask of it."""

    def render(self, messages: Sequence[Message]) -> str: ...


def prompts(item: Item, chat: Renderer, conditions: Iterable[str]) -> dict[str, str]:
    """The rendered prompt under each condition; one that the item lacks the means for is absent."""
    rendered = {}
    for name in conditions:
        messages = CONDITIONS[name].write(item, chat)
        if messages is not None:
            rendered[name] = chat.render(messages)
    return rendered


def find_item(items: Sequence[Item], item_id: str, where: str) -> Item:
    """The item of that id.

    Raises:
        UserError: there is none; `where` names the file they come from.
    """
    for item in items:
        if item.item_id == item_id:
            return item
    some = ", ".join(item.item_id for item in items[:3])
    raise UserError(f"{where}: no item {item_id!r}; its {len(items)} items are {some}, ...")


def as_text(item: Item, chat: Renderer, conditions: Iterable[str] = tuple(CONDITIONS)) -> str:
    """An item's prompts under all conditions and what is scored after each, to read and to diff.

    Each prompt stands between two rulers, byte for byte; the hash above it is the one that the
    score shards keep as `prompt_sha256`.
    """
    blocks = [f"item {item.item_id}, task {item.task_id}\n"]
    wanted = list(conditions)
    rendered = prompts(item, chat, wanted)
    for name in wanted:
        blocks.append(_ruler(f"{name}: {CONDITIONS[name].summary}"))
        if name not in rendered:
            blocks.append("(absent: the item lacks what this condition needs)\n")
            continue
        digest = hashlib.sha256(rendered[name].encode("utf-8", "surrogatepass")).hexdigest()
        blocks += [f"sha256 {digest}\n", _ruler("prompt"), rendered[name], "\n" + _ruler("end")]
        scored = CONDITIONS[name].candidates(item, chat)
        blocks += [f"scored, {candidate}: {text}\n" for candidate, text in scored.items()]
    return "".join(blocks)


def _ruler(title: str) -> str:
    return f"{f'---- {title} ':-<80}\n"
