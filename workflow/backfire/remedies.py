"""Sentences on each other way to write the record: what it leaves of the effect, at what cost."""

from __future__ import annotations

from backfire.cells import Cell, Reading, Study, read
from backfire.conditions import CONDITIONS
from backfire.record_measures import is_record
from backfire.verdict import Code, Sentence, say


def rewrites(study: Study, model: str, environment: str) -> list[Sentence]:
    """For each other way to write the record, what it leaves of the effect; the best first."""
    return [
        sentence
        for name in ranked(study, model, environment)
        if (sentence := rewrite(study, model, environment, name))
    ]


def ranked(study: Study, model: str, environment: str) -> list[str]:
    """The ways to write the record by the G that they leave, highest first."""
    left = {
        name: cell.mean
        for name, condition in CONDITIONS.items()
        if is_record(condition) and (cell := study.get(model, environment, f"G_{name}"))
    }
    return sorted(left, key=lambda name: -left[name])


def rewrite(study: Study, model: str, environment: str, condition: str) -> Sentence:
    """What writing the record as `condition` leaves of the effect, and what it costs."""
    left, removed = (
        study.get(model, environment, name) for name in (f"G_{condition}", f"{condition}_removed")
    )
    if left is None:
        return ()
    name = Code(condition)
    cost = _cost(study, model, environment, condition)
    # G may be of fewer items than the standard record's; the change is of the same ones.
    change = study.get(model, environment, f"delta_{condition}")
    if change is None:
        tail = " cannot be set beside the standard record, its call being another string; "
        tail += "against its own baseline G is {g} nats"
        return (*say("{c}" + tail, c=name, g=left), *cost, ".")
    reading = _reading(study, model, environment, condition, change)
    if reading in _UNIMPROVED:
        tail = f" {_UNIMPROVED[reading]}: G is {{g}} nats"
        return (*say("{c}" + tail, c=name, d=change, g=left), *cost, ".")
    share: Sentence = () if removed is None else say(", {r} of the effect removed", r=removed)
    tail = {
        Reading.BELOW: " weakens it and does not remove it: G is still {g} nats",
        Reading.ABOVE: " turns it round: G is {g} nats",
        Reading.NEGLIGIBLE: " removes it, to within the margin: G is {g} nats",
        Reading.UNCLEAR: " weakens it, and no clear effect is left: G is {g} nats",
        Reading.UNDEFINED: " weakens it: G is {g} nats",
    }[_left(study, model, environment, condition, left)]
    return (*say("{c}" + tail, c=name, g=left), *share, *cost, ".")


_UNIMPROVED = {
    Reading.ABOVE: "makes it worse, by {d} nats on the same items",
    Reading.NEGLIGIBLE: "does nothing to it, to within the margin per token (it moves the call by "
    "{d:mean} nats on the same items)",
    Reading.UNCLEAR: "makes no clear difference (it moves the call by {d:mean} nats, "
    "{d:interval}, on the same items)",
    Reading.UNDEFINED: "makes no difference that could be judged",
}
"""What is said where the call is no less likely than after the standard record."""


def _reading(study: Study, model: str, environment: str, condition: str, change: Cell) -> Reading:
    """How the failed call's probability differs from after the standard record.

    The margin is per token.
    """
    per_token = study.get(model, environment, f"delta_{condition}_per_token")
    if read(per_token, study.margin) is Reading.NEGLIGIBLE:
        return Reading.NEGLIGIBLE
    return read(change)


def _cost(study: Study, model: str, environment: str, condition: str) -> Sentence:
    """The tokens of the context against the standard record's, on the same items."""
    extra = study.get(model, environment, f"extra_tokens_{condition}")
    if extra is None:
        return ()
    if abs(extra.mean) < 0.05:
        return say("; the context is as long")
    if extra.mean < 0:
        return say("; the context is {x:flip mean} tokens shorter", x=extra)
    return say("; the context is {x:mean} tokens longer", x=extra)


def _left(study: Study, model: str, environment: str, condition: str, left: Cell) -> Reading:
    """The reading of what is left; the margin is per token, so it needs G per token."""
    each = study.get(model, environment, f"G_{condition}_per_token")
    if read(each, study.margin) is Reading.NEGLIGIBLE:
        return Reading.NEGLIGIBLE
    return read(left)
