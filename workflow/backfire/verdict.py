"""Sentences made from intervals: what a model's estimates allow one to say, and no more.

A sentence is a tuple of plain strings and `Number`s, so that a page can link each number to
the table that holds it and a terminal can print it.
"""

from __future__ import annotations

import math
from string import Formatter
from typing import NamedTuple

from backfire.cells import Cell, Reading, Study, format_interval, format_value, read


class Number(NamedTuple):
    """A printed number and the estimate that it was read from."""

    text: str
    model: str
    environment: str
    measure: str
    group: str = "all"


class Code(NamedTuple):
    """A name as it stands in the config or the code."""

    text: str


Sentence = tuple[str | Number | Code, ...]


def mean_of(cell: Cell, flip: bool = False) -> Number:
    """The mean as a number; `flip` prints its negative, as in −G."""
    value = -cell.mean if flip else cell.mean
    return _printed(cell, format_value(value, cell.measure))


def interval_of(cell: Cell, flip: bool = False) -> Number:
    """The interval in words; `flip` gives that of the negative."""
    return _printed(cell, format_interval(cell, flip))


def _printed(cell: Cell, text: str) -> Number:
    return Number(text, cell.model, cell.environment, cell.measure, cell.group)


def say(template: str, **parts: str | Number | Code | Cell) -> Sentence:
    """Fill `{name}` with text or a number, and with an estimate as "mean (interval)".

    `{name:flip}` negates an estimate, `{name:mean}` and `{name:interval}` give half of it.
    """
    filled: list[str | Number | Code] = []
    for text, name, how, _ in Formatter().parse(template):
        filled.append(text)
        if name is None:
            continue
        part = parts[name]
        if not isinstance(part, Cell):
            filled.append(part)
            continue
        flip = "flip" in (how or "")
        if "interval" not in (how or ""):
            filled.append(mean_of(part, flip))
        if not how or how == "flip":
            filled += [" (", interval_of(part, flip), ")"]
        elif "interval" in how:
            filled.append(interval_of(part, flip))
    return tuple(part for part in filled if part != "")


def plain(sentence: Sentence) -> str:
    """A sentence as text."""
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def markdown(sentence: Sentence) -> str:
    """A sentence as Markdown."""
    return "".join(f"`{p.text}`" if isinstance(p, Code) else plain((p,)) for p in sentence)


def effect(study: Study, model: str, environment: str) -> Reading:
    """What the record does to the failed call, by G, or by G per token when within the margin."""
    if read(study.get(model, environment, "G_per_token"), study.margin) is Reading.NEGLIGIBLE:
        return Reading.NEGLIGIBLE
    return read(study.get(model, environment, "G"))


SHORT = {
    Reading.BELOW: "backfires",
    Reading.ABOVE: "helps",
    Reading.NEGLIGIBLE: "does nothing, within the margin",
    Reading.UNCLEAR: "has no clear effect",
    Reading.UNDEFINED: "cannot be judged",
}
"""The verdict on the standard record in a few words."""


def headline(study: Study, model: str, environment: str, label: str) -> list[Sentence]:
    """Two sentences at most: what the standard record does, and what of it is form."""
    gain, each = (study.get(model, environment, name) for name in ("G", "G_per_token"))
    if gain is None or each is None:
        return [say("{m} on {e}: there is no score to judge by.", m=label, e=environment)]
    names = {"m": label, "e": environment, "level": f"{100 * study.confidence:g} %"}
    match effect(study, model, environment):
        case Reading.BELOW:
            first = say(
                "On {e}, having just watched a call fail, {m} is more likely to write the same "
                "call again: on average the record raises its log-probability by {g:flip mean} "
                "nats ({level} interval {g:flip interval}).",
                g=gain,
                **names,
            )
        case Reading.ABOVE:
            first = say(
                "On {e}, having just watched a call fail, {m} is less likely to write the same "
                "call again: on average the record lowers its log-probability by {g:mean} "
                "nats ({level} interval {g:interval}).",
                g=gain,
                **names,
            )
        case Reading.NEGLIGIBLE:
            first = say(
                "On {e}, the record of a failed call does next to nothing to {m}: G per token is "
                "{g} nats, inside the equivalence margin of ±{margin}.",
                g=each,
                margin=f"{study.margin:g}",
                **names,
            )
        case Reading.UNCLEAR:
            first = say(
                "On {e}, the record of a failed call has no clear effect on {m}: the interval of "
                "G contains zero ({g:mean} nats, {g:interval}), which is no proof that there is "
                "none.",
                g=gain,
                **names,
            )
        case Reading.UNDEFINED:
            first = say("On {e}, nothing can be said of {m}: G is {g}.", g=gain, **names)
    backfires = effect(study, model, environment) is Reading.BELOW
    second = form(study, model, environment) if backfires else ()
    return [sentence for sentence in (first, second) if sentence]


def in_short(study: Study, model: str, environment: str) -> Sentence:
    """One line: the change of the failed call's log-probability, whole and per token."""
    gain, each = (study.get(model, environment, name) for name in ("G", "G_per_token"))
    if gain is None or each is None:
        return say("There is no score to judge by.")
    return say(
        "log P(failed call) changes by {g:flip} nats, {t:flip mean} per token.", g=gain, t=each
    )


def form(study: Study, model: str, environment: str) -> Sentence:
    """How much of the rise is the call's mere presence, and what its marking as failed does."""
    share, sem = (study.get(model, environment, name) for name in ("form_share", "sem"))
    if sem is None:
        return ()
    match read(sem):
        case Reading.BELOW:
            return say(
                "The call's presence alone would do more than that; marking it as failed takes "
                "{s:flip mean} nats off ({s:flip interval}), too little to outweigh it.",
                s=sem,
            )
        case Reading.UNDEFINED:
            return say("How much of it is form cannot be said: sem is {s}.", s=sem)
        case reading if share is not None and read(share) is not Reading.UNDEFINED:
            tail = {
                Reading.ABOVE: "marking it as failed adds {s} nats where it should take some off",
                Reading.UNCLEAR: "marking it as failed has no clear effect ({s:mean} nats, "
                "{s:interval})",
            }[reading]
            return say(
                "Form, the mere presence of the call, accounts for {f} of the rise; " + tail + ".",
                f=share,
                s=sem,
            )
    return ()


def per_token(study: Study, model: str, environment: str) -> list[Sentence]:
    """The size per token, as nats and as a ratio of probabilities."""
    gain = study.get(model, environment, "G_per_token")
    if gain is None:
        return []
    ratio = _printed(gain, f"{math.exp(-gain.mean):.2f}")
    return [
        say(
            "Per token of the call, G is {g} nats: the record multiplies a token's probability "
            "by {ratio} (geometric mean).",
            g=gain,
            ratio=ratio,
        )
    ]


def share_of_items(study: Study, model: str, environment: str) -> list[Sentence]:
    share = study.get(model, environment, "G_negative")
    if share is None:
        return []
    return [say("The failed call became likelier on {s} of {n} items.", s=share, n=str(share.n))]


def forced_choice(study: Study, model: str, environment: str) -> list[Sentence]:
    """The chance of the failed call among four, before and after the record."""
    before, after, shift = (
        study.get(model, environment, f"p_repeat_{name}") for name in ("pre", "fail", "shift")
    )
    if before is None or after is None or shift is None:
        return []
    change = {
        Reading.ABOVE: ", an absolute rise of {d}",
        Reading.BELOW: ", an absolute fall of {d:flip}",
    }.get(read(shift), ", no clear change ({d:interval})")
    return [
        say(
            "Forced to choose among four calls, it gives the failed one {b:mean} before the "
            "record and {a:mean} after it" + change + ".",
            b=before,
            a=after,
            d=shift,
        )
    ]


def decoding(study: Study, model: str, environment: str) -> list[Sentence]:
    """On how many items greedy decoding writes the failed call."""
    before, after = (
        study.get(model, environment, f"greedy_repeat_{name}") for name in ("pre", "fail")
    )
    if before is None or after is None:
        return []
    return [
        say(
            "Greedy decoding writes the failed call on {b} of items without the record and on "
            "{a} with it.",
            b=before,
            a=after,
        )
    ]


def right_action(study: Study, model: str, environment: str) -> list[Sentence]:
    """What the record does for the right call."""
    repair = study.get(model, environment, "repair")
    if repair is None:
        return []
    what = {
        Reading.ABOVE: "The right call becomes likelier too, by {r} nats.",
        Reading.BELOW: "The right call becomes less likely, by {r:flip} nats.",
        Reading.UNCLEAR: "For the right call there is no clear change: {r} nats.",
    }.get(read(repair), "Of the right call nothing can be said: {r}.")
    return [say(what, r=repair)]


def cautions(study: Study, model: str, environment: str) -> list[Sentence]:
    """What weakens the verdict: few clusters, an interval that is missing."""
    gain = study.get(model, environment, "G")
    if gain is None or gain.clusters >= 10:
        return []
    return [
        say(
            "Only {k} tasks: an interval from so few is too narrow, and the verdict is weak.",
            k=str(gain.clusters),
        )
    ]
