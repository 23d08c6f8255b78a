"""What is said follows from intervals, and claims no more than they allow."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from dataclasses import replace

import fakes
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfire.cells import Reading, Study, format_interval, format_value, read
from backfire.conditions import CONDITIONS
from backfire.errors import UserError
from backfire.export import as_text, find_item
from backfire.remedies import rewrite
from backfire.summary import escape, summary, terminal
from backfire.verdict import cautions, effect, forced_choice, form, headline, plain, say


def study(
    *, margin: float | None = None, clusters: int = 40, **cells: tuple[float, float, float]
) -> Study:
    """A study of model m on environment e whose cells are (low, mean, high)."""
    rows = [
        {
            "model": "m",
            "environment": "e",
            "group": "all",
            "measure": name,
            "mean": mean,
            "ci_low": low,
            "ci_high": high,
            "n": 100,
            "n_clusters": clusters,
            "status": "no interval: a single cluster" if math.isnan(low) else "ok",
        }
        for name, (low, mean, high) in cells.items()
    ]
    return Study(pd.DataFrame(rows), margin)


NAN = math.nan


@pytest.mark.parametrize(
    ("interval", "margin", "reading"),
    [
        ((-3, -2, -1), None, Reading.BELOW),
        ((1, 2, 3), None, Reading.ABOVE),
        ((-1, 0, 1), None, Reading.UNCLEAR),
        ((0, 1, 2), None, Reading.UNCLEAR),
        ((-0.01, 0, 0.01), None, Reading.UNCLEAR),
        ((-0.01, 0, 0.01), 0.02, Reading.NEGLIGIBLE),
        ((-0.01, 0.005, 0.02), 0.02, Reading.UNCLEAR),
        ((0.005, 0.01, 0.015), 0.02, Reading.NEGLIGIBLE),
        ((NAN, 1, NAN), 0.02, Reading.UNDEFINED),
    ],
)
def test_an_interval_is_read_by_its_ends(
    interval: tuple[float, float, float], margin: float | None, reading: Reading
) -> None:
    assert read(study(x=interval).get("m", "e", "x"), margin) is reading


values = st.floats(-50, 50, allow_nan=False).map(lambda value: round(value, 3))
intervals = st.lists(values, min_size=3, max_size=3).map(lambda three: tuple(sorted(three)))


@given(gain=intervals, sem=intervals, share=intervals, each=intervals)
def test_the_headline_claims_no_more_than_its_intervals(
    gain: tuple[float, float, float],
    sem: tuple[float, float, float],
    share: tuple[float, float, float],
    each: tuple[float, float, float],
) -> None:
    made = study(G=gain, sem=sem, form_share=share, G_per_token=each, margin=0.05)
    text = " ".join(map(plain, headline(made, "m", "e", "the model")))
    nothing = each[0] > -0.05 and each[2] < 0.05
    assert ("more likely" in text) == (gain[2] < 0 and not nothing)
    assert ("less likely" in text) == (gain[0] > 0 and not nothing)
    assert ("next to nothing" in text) == nothing
    assert ("no clear effect on" in text) == (gain[0] <= 0 <= gain[2] and not nothing)
    assert ("accounts for" in text) == (gain[2] < 0 and sem[2] >= 0 and not nothing)
    assert ("adds" in text) == (gain[2] < 0 and sem[0] > 0 and not nothing)
    assert ("takes" in text) == (gain[2] < 0 and sem[2] < 0 and not nothing)


def test_nothing_is_claimed_to_do_nothing_without_a_margin() -> None:
    cells = {"G": (-0.001, 0.0, 0.001), "G_per_token": (-0.001, 0.0, 0.001)}
    assert effect(study(**cells), "m", "e") is Reading.UNCLEAR
    assert effect(study(**cells, margin=0.05), "m", "e") is Reading.NEGLIGIBLE


def test_without_an_interval_nothing_is_claimed() -> None:
    made = study(G=(NAN, -20, NAN), sem=(NAN, 1, NAN), G_per_token=(NAN, -1, NAN))
    (only,) = headline(made, "m", "e", "the model")
    assert plain(only).startswith("On e, nothing can be said of the model")
    assert "a single cluster" in plain(only)
    assert plain(form(made, "m", "e")).startswith("How much of it is form cannot be said")


@pytest.mark.parametrize(
    ("left", "change", "said"),
    [
        ((-3, -2, -1), (-30, -20, -10), "weakens it and does not remove it"),
        ((-1, 0, 1), (-30, -20, -10), "no clear effect is left"),
        ((-0.1, 0, 0.1), (-30, -20, -10), "removes it, to within the margin"),
        ((1, 2, 3), (-30, -20, -10), "turns it round"),
        ((-30, -20, -10), (1, 2, 3), "makes it worse, by 2.00 (1.00 to 3.00) nats"),
        ((-30, -20, -10), (-1, 0, 1), "makes no clear difference (it moves the call by 0.00 nats"),
        ((-1, 0, 1), (-1, 0, 1), "makes no clear difference"),
        ((-30, -20, -10), (NAN, 0, NAN), "makes no difference that could be judged"),
    ],
)
def test_a_rewrite_is_judged_by_what_it_changes_and_what_it_leaves(
    left: tuple[float, float, float], change: tuple[float, float, float], said: str
) -> None:
    per_token = tuple(value / 10 for value in left)
    made = study(
        G_abstract=left, delta_abstract=change, G_abstract_per_token=per_token, margin=0.05
    )
    assert said in plain(rewrite(made, "m", "e", "abstract"))
    assert rewrite(made, "m", "e", "fail_echo") == ()


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        ((0.1, 0.2, 0.3), "an absolute rise of 20.0 % (10.0 % to 30.0 %)"),
        ((-0.3, -0.2, -0.1), "an absolute fall of 20.0 % (10.0 % to 30.0 %)"),
        ((-0.1, 0.2, 0.3), "no clear change (−10.0 % to 30.0 %)"),
    ],
)
def test_the_forced_choice_is_read_from_the_shift(
    shift: tuple[float, float, float], said: str
) -> None:
    cells = {"p_repeat_pre": (0.1, 0.1, 0.1), "p_repeat_fail": (0.3, 0.3, 0.3)}
    (sentence,) = forced_choice(study(**cells, p_repeat_shift=shift), "m", "e")
    assert said in plain(sentence)


def test_few_tasks_are_cautioned_against() -> None:
    gain = (-3.0, -2.0, -1.0)
    assert "Only 9 tasks" in plain(cautions(study(G=gain, clusters=9), "m", "e")[0])
    assert cautions(study(G=gain, clusters=10), "m", "e") == []


@pytest.mark.parametrize(
    ("value", "measure", "text"),
    [
        (-1.234, "G", "−1.23"),
        (-0.001, "G", "0.00"),
        (0.975, "G_negative", "97.5 %"),
        (0.0001, "p_repeat_fail", "<0.1 %"),
        (0.0, "p_repeat_fail", "0.0 %"),
        (3.2e-9, "candidate_mass_pre", "3.2e−09"),
        (NAN, "G", "undefined"),
    ],
)
def test_numbers_are_printed_by_their_unit(value: float, measure: str, text: str) -> None:
    assert format_value(value, measure) == text


def test_one_sided_bounds_say_which_side() -> None:
    cells = Study(fakes.estimates("m", "e"))
    for measure, side in (("greedy_repeat_pre", "at most"), ("greedy_repeat_fail", "at least")):
        cell = cells.get("m", "e", measure)
        assert cell is not None
        assert format_interval(cell).startswith(side)


def test_say_fills_estimates_in_every_way() -> None:
    made = study(G=(-3, -2, -1)).get("m", "e", "G")
    assert made is not None
    text = plain(say("{g} {g:flip} {g:mean} {g:interval} {g:flip interval}", g=made))
    assert text == "−2.00 (−3.00 to −1.00) 2.00 (1.00 to 3.00) −2.00 −3.00 to −1.00 1.00 to 3.00"


def test_the_summary_holds_every_estimate() -> None:
    estimates = pd.concat(
        [fakes.estimates("m", "e"), fakes.estimates("stranger", "e", strength=-0.1)]
    )
    text = summary(Study(estimates), "m", fakes.CARD)
    assert "stranger" not in text
    assert text.startswith("# m (4-bit Q4\\_1 weights)\n")
    assert "the standard record backfires" in text
    rows = estimates[(estimates["model"] == "m") & (estimates["group"] == "all")]
    for row in rows[rows["mean"].notna()].to_dict("records"):
        line = next(line for line in text.splitlines() if line.startswith(f"| `{row['measure']}` "))
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert cells[1].strip("*") == format_value(row["mean"], row["measure"])
        assert cells[3:5] == [str(row["n"]), str(row["n_clusters"])]


def test_the_summary_splits_the_gain() -> None:
    text = summary(Study(fakes.estimates("m", "e")), "m", fakes.CARD)
    for value in (*fakes.FAMILIES, *fakes.OPERATORS):
        assert text.count(f"| {escape(value)} |") == 1
    assert text.index("| error family |") < text.index("| operator |")


def test_markdown_survives_hostile_names() -> None:
    assert escape("a|b\n<script> `x`") == r"a\|b \<script\> \`x\`"
    hostile = {**fakes.CARD, "weights": "<b>|</b>"}
    text = summary(Study(fakes.estimates("m", "e")), "m", hostile)
    assert text.startswith(r"# m (\<b\>\|\</b\>)")
    tables = itertools.groupby(text.splitlines(), key=lambda line: line.startswith("|"))
    for lines in (list(lines) for piped, lines in tables if piped):
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_the_terminal_gets_every_model_and_fits() -> None:
    estimates = pd.concat([fakes.estimates("m", "e"), fakes.estimates("weak", "e", strength=-0.1)])
    text = terminal(
        Study(estimates), {"m": fakes.CARD, "weak": fakes.CARD}, ["The report: results/report.html"]
    )
    assert "m (4-bit Q4_1 weights) on e: the standard record backfires" in text
    assert "weak (4-bit Q4_1 weights) on e: the standard record helps" in text
    assert max(map(len, text.splitlines())) <= 88
    assert text.endswith("The report: results/report.html\n")


def test_the_export_is_byte_for_byte() -> None:
    item = fakes.items(1, hostile=True)[0]
    text = as_text(item, fakes.Chat(), ["pre", "fail", "abstract"])
    for name in ("pre", "fail", "abstract"):
        messages = CONDITIONS[name].write(item, fakes.Chat())
        assert messages is not None
        prompt = fakes.Chat().render(messages)
        block = f"sha256 {hashlib.sha256(prompt.encode()).hexdigest()}\n---- prompt "
        assert block in text
        assert prompt in text
    assert text.count(f"scored, failed: {item.failed_action}\n") == 3
    assert text.count(f"scored, gold: {item.gold_action}\n") == 3
    places = [text.index(f"---- {name}: ") for name in ("pre", "fail", "abstract")]
    assert all(one < other for one, other in itertools.pairwise(places))


def test_an_absent_condition_is_named() -> None:
    item = fakes.items(1)[0]
    bare = replace(item, error_family=None)
    assert "(absent: the item lacks what this condition needs)" in as_text(bare, fakes.Chat())


def test_an_unknown_item_is_one_line() -> None:
    with pytest.raises(UserError, match=r"pool: no item 'x'; its 2 items are item-000, item-001"):
        find_item(fakes.items(1), "x", "pool")
