"""Items worked through in the report: which, by a stated rule, and which tokens gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import pandas as pd

from backfire.export import Renderer, prompts
from backfire.items import Item
from backfire.trace import token_gains

SHOWN = ("pre", "fail", "neut", "abstract")
RULE = (
    "Three items by rule, not by taste: the one whose G is the median (the lower of two), the one "
    "with the most negative G, and the one with the most positive G where any is above zero. "
    "Ties go to the smaller item id."
)


class Token(NamedTuple):
    """A token of the failed call: its text and the nats that it gained over `pre`."""

    text: str
    gain: float


class View(NamedTuple):
    """An item under one condition.

    The prompt is `shared` and then `tail`: under `pre`, `shared` is what all worked items begin
    with, elsewhere what the prompt has in common with `pre`'s. `tokens` and `logprob` are of the
    failed call, without gains under `pre` itself.
    """

    condition: str
    shared: str
    tail: str
    logprob: float
    tokens: tuple[Token, ...]

    @property
    def gained(self) -> tuple[Token, ...]:
        """The three tokens that gained the most, those that gained at all."""
        rising = [token for token in self.tokens if token.gain > 0]
        return tuple(sorted(rising, key=lambda token: -token.gain)[:3])


@dataclass(frozen=True)
class Worked:
    """An item, why it was chosen, its G (nats), and what the model saw."""

    reason: str
    item: Item
    gain: float
    views: tuple[View, ...]

    @property
    def scale(self) -> float:
        """The largest change of any token, for shading."""
        changes = [abs(token.gain) for view in self.views for token in view.tokens]
        return max(changes, default=0.0) or 1.0


def choose(scores: pd.DataFrame) -> list[tuple[str, str]]:
    """(item id, reason) of the items to work through, by `RULE`.

    Args:
        scores: rows of the score shards of one model and environment.
    """
    failed = scores[(scores["candidate"] == "failed") & scores["logprob"].notna()]
    wide = failed.pivot(index="item_id", columns="condition", values="logprob")
    if not {"pre", "fail"} <= set(wide.columns):
        return []
    gains = (wide["pre"] - wide["fail"]).dropna().sort_index().sort_values(kind="stable")
    if gains.empty:
        return []
    chosen = {str(gains.index[(len(gains) - 1) // 2]): "the median item"}
    if gains.iloc[0] < 0:
        chosen.setdefault(str(gains.index[0]), "the item that backfires most")
    best = gains[gains == gains.iloc[-1]].index[0]
    if gains[best] > 0:
        chosen.setdefault(str(best), "the item on which the record helps most")
    return list(chosen.items())


def work(scores: pd.DataFrame, items: Sequence[Item], chat: Renderer) -> list[Worked]:
    """The chosen items as the model saw them, each failed token with what it gained."""
    by_id = {item.item_id: item for item in items}
    chosen = [(by_id[item_id], reason) for item_id, reason in choose(scores)]
    common = _shared([prompts(item, chat, ["pre"])["pre"] for item, _ in chosen])
    worked = []
    for item, reason in chosen:
        own = scores[(scores["item_id"] == item.item_id) & (scores["candidate"] == "failed")]
        logprobs = own.set_index("condition")["logprob"].dropna().to_dict()
        gains = token_gains(own, [item])
        rendered = prompts(item, chat, [name for name in SHOWN if name in logprobs])
        views = []
        for condition, prompt in rendered.items():
            shared = common if condition == "pre" else _shared([prompt, rendered["pre"]])
            rows = gains[gains["condition"] == condition]
            tokens = tuple(map(Token, rows["text"], rows["gain"]))
            views.append(
                View(condition, shared, prompt[len(shared) :], logprobs[condition], tokens)
            )
        gain = logprobs["pre"] - logprobs["fail"]
        worked.append(Worked(reason, item, gain, tuple(views)))
    return worked


def _shared(prompts: Sequence[str]) -> str:
    """The whole lines that all begin with; nothing where there is one alone."""
    if len(prompts) < 2:
        return ""
    lines = zip(*(prompt.splitlines(keepends=True) for prompt in prompts), strict=False)
    return "".join(same[0] for same in takewhile(lambda same: len(set(same)) == 1, lines))
