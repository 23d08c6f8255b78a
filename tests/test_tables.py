"""Printed tables: the right numbers in the right cells, in three formats."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic

from backfire import descriptions, tables
from backfire.estimates import ALL_MODELS, Statistics, estimate, estimate_all_models
from backfire.items import Item, Turn
from backfire.measures import measure
from backfire.tabular import Entry, Table, csv, latex, markdown, number

LABELS = {"smol": "smol (4-bit Q4_1 weights)", "big_one": "big_one"}
PUBLISHED = Path(__file__).parents[1] / "resources" / "published"
QUICK = Statistics(seed=1, resamples=300)


@pytest.fixture(scope="module")
def estimates() -> pd.DataFrame:
    """Two models on toolshed; nothing repeats greedily under abstract, and one item lacks neut."""
    items = synthetic.items(12)
    measured = {}
    for seed, model in enumerate(LABELS):
        scores = synthetic.scores(items, seed=seed)
        lacking = (scores["item_id"] == "item-01-0") & (scores["condition"] == "neut")
        measured[model] = measure(scores[~lacking] if model == "smol" else scores, items)
    parts = [estimate(rows, model, "toolshed", QUICK) for model, rows in measured.items()]
    return pd.concat([*parts, estimate_all_models(measured, "toolshed", QUICK)])


def printed(table: Table) -> dict[tuple[str, str], Entry]:
    """Cells by first column and head."""
    return {
        (row[0].text, head): entry
        for row in table.rows
        for head, entry in zip(table.columns, row, strict=True)
    }


def estimate_of(estimates: pd.DataFrame, model: str, measure: str, group: str = "all") -> pd.Series:
    (index,) = np.flatnonzero(
        (estimates["model"] == model)
        & (estimates["measure"] == measure)
        & (estimates["group"] == group)
    )
    return estimates.iloc[index]


def test_each_cell_has_mean_interval_and_n(estimates):
    cells = printed(tables.by_model(estimates, "gain", "toolshed", "toolshed", LABELS))
    for label, model in {LABELS["smol"]: "smol", "big_one": "big_one"}.items():
        row = estimate_of(estimates, model, "copy")
        entry = cells[label, "copy (nats)"]
        assert entry.text == f"{row['mean']:.2f}"
        assert entry.value == row["mean"]
        assert entry.detail == f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}] n={row['n']}"


def test_the_decomposition_adds_up_within_a_row(estimates):
    """Where an item lacks neut, G on the items of the decomposition has its own column."""
    table = tables.by_model(estimates, "gain", "toolshed", "toolshed", LABELS)
    cells = printed(table)
    head = "G_decomposed (nats)"
    for label in LABELS.values():
        total = cells[label, "copy (nats)"].value + cells[label, "sem (nats)"].value
        assert cells[label, head].value == pytest.approx(-total)
    assert cells[LABELS["smol"], head].value != cells[LABELS["smol"], "G (nats)"].value
    complete = estimates[estimates["model"] == "big_one"]
    alone = tables.by_model(complete, "gain", "toolshed", "toolshed", {"big_one": "b"})
    assert head not in alone.columns


def test_all_models_stand_last_and_only_beside_several(estimates):
    table = tables.by_model(estimates, "gain", "toolshed", "toolshed", LABELS)
    assert [row[0].text for row in table.rows] == [
        *LABELS.values(),
        "all models (unweighted mean)",
    ]
    means = [row[1].value for row in table.rows]
    assert means[2] == pytest.approx((means[0] + means[1]) / 2)
    alone = tables.by_model(estimates, "gain", "toolshed", "toolshed", {"smol": "s"})
    assert [row[0].text for row in alone.rows] == ["s"]
    assert ALL_MODELS not in set(alone.data["model"])


def test_bold_where_an_interval_excludes_zero(estimates):
    changed = estimates.copy()
    cell = (
        (changed["measure"] == "sem") & (changed["model"] == "smol") & (changed["group"] == "all")
    )
    changed.loc[cell, ["ci_low", "ci_high"]] = [-0.1, 0.2]
    cells = printed(tables.by_model(changed, "gain", "toolshed", "toolshed", LABELS))
    assert cells["big_one", "G (nats)"].bold
    assert not cells[LABELS["smol"], "sem (nats)"].bold
    repeats = tables.by_model(estimates, "repetition", "toolshed", "toolshed", LABELS)
    bold = {head for (_, head), entry in printed(repeats).items() if entry.bold}
    assert bold == {"p_repeat_shift (probability)"}, "a probability excludes zero always"


def test_a_bound_is_marked_and_explained(estimates):
    table = tables.by_model(estimates, "repetition", "toolshed", "toolshed", LABELS)
    entry = printed(table)["big_one", "greedy_repeat_abstract (proportion)"]
    assert entry.text == "0.000"
    assert entry.detail.endswith("†")
    assert any(note.startswith("†") for note in table.notes)


def test_no_interval_is_said(estimates):
    changed = estimates.assign(
        ci_low=np.nan, ci_high=np.nan, status="no interval: a single cluster"
    )
    table = tables.by_model(changed, "gain", "toolshed", "toolshed", LABELS)
    entry = printed(table)["big_one", "G (nats)"]
    assert entry.detail.startswith("[no interval]")
    assert not entry.bold
    assert "No interval: a single cluster." in table.notes


def test_an_absent_measure_has_no_column(estimates):
    lacking = estimates.assign(n=estimates["n"].where(estimates["measure"] != "repair", 0))
    table = tables.by_model(lacking, "controls", "toolshed", "toolshed", LABELS)
    assert not [head for head in table.columns if head.startswith("repair")]
    assert "No item has the terms of repair." in table.notes


def test_by_group_has_a_row_per_value(estimates):
    table = tables.by_group(estimates, "error_family", "toolshed", "toolshed", LABELS)
    assert [row[0].text for row in table.rows] == ["missing_argument", "unknown_tool"]
    value = printed(table)["unknown_tool", "big_one"].value
    family = "error_family=unknown_tool"
    assert value == estimate_of(estimates, "big_one", "G", family)["mean"]
    assert table.notes[0] == "No cell is positive (6 cells)."


def test_positive_cells_are_counted(estimates):
    changed = estimates.reset_index(drop=True)
    family = changed["group"] == "error_family=unknown_tool"
    cell = family & (changed["measure"] == "G") & (changed["model"] == "smol")
    changed.loc[cell, ["mean", "ci_low", "ci_high"]] = [1.0, 0.5, 2.0]
    table = tables.by_group(changed, "error_family", "toolshed", "toolshed", LABELS)
    assert table.notes[0].startswith("Positive cells: 1 of 6, 1 of them with an interval")


def test_steps_stand_in_order_of_number(estimates):
    steps = [estimates[estimates["group"] == "step=0"].assign(group=f"step={k}") for k in (10, 2)]
    table = tables.by_group(
        pd.concat([estimates, *steps]), "step", "toolshed", "toolshed", LABELS, "copy"
    )
    assert [row[0].text for row in table.rows] == ["0", "1", "2", "10"]


def test_by_condition_shows_ways_to_write_the_record(estimates):
    table = tables.by_condition(estimates, synthetic.CORE, "toolshed", "toolshed", LABELS)
    assert [row[0].text for row in table.rows] == ["abstract"]
    value = printed(table)["abstract", "big_one"].value
    assert value == estimate_of(estimates, "big_one", "delta_abstract")["mean"]


def test_holm_over_the_declared_family(estimates):
    family = estimates[estimates["measure"] == "G"].copy()
    family.loc[family["model"] == "smol", "p"] = 0.01
    family.loc[family["model"] == "big_one", "p"] = 0.04
    other = family[family["model"] == "smol"].assign(environment="coderepair", p=0.02)
    untested = other.assign(environment="mine", p=np.nan)
    table = tables.holm(pd.concat([family, other, untested]), LABELS)
    found = table.data.set_index(["model", "environment"])["p_holm"]
    assert found["smol", "toolshed"] == pytest.approx(0.03)
    assert found["smol", "coderepair"] == pytest.approx(0.04)
    assert found["big_one", "toolshed"] == pytest.approx(0.04)
    assert np.isnan(found["smol", "mine"])
    assert ALL_MODELS not in set(table.data["model"])


def test_csv_keeps_every_digit(estimates):
    table = tables.by_model(estimates, "gain", "toolshed", "toolshed", LABELS)
    back = pd.read_csv(io.StringIO(csv(table)))
    assert back["mean"].to_list() == table.data["mean"].to_list()
    assert {"model", "measure", "mean", "ci_low", "ci_high", "n", "status"} <= set(back.columns)


def test_weights_are_named_wherever_a_number_stands(estimates):
    for table in (
        tables.by_model(estimates, "gain", "toolshed", "toolshed", LABELS),
        tables.by_group(estimates, "operator", "toolshed", "toolshed", LABELS),
        tables.holm(estimates, LABELS),
    ):
        assert "4-bit Q4_1 weights" in markdown(table)
        assert r"4-bit Q4\_1 weights" in latex(table)


AWKWARD = Entry("a|b `c` *d*\n  e<f> & 50% $x_1$ ~^\\", code=True)


def small(*entries: Entry) -> Table:
    return Table("t", "A caption", tuple("xyz"[: len(entries)]), (entries,), pd.DataFrame())


def test_markdown_rows_have_as_many_cells_as_heads():
    lines = markdown(small(AWKWARD, AWKWARD._replace(code=False), Entry("−1.00", bold=True)))
    rows = [line for line in lines.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "**−1.00**" in lines


def test_latex_is_escaped():
    text = latex(small(AWKWARD, Entry("−1.00", detail="[−2.00, 0.10] n=3†", bold=True)))
    row = next(line for line in text.splitlines() if "textbf" in line)
    assert row.endswith(r"\\")
    assert len(re.findall(r"(?<!\\)&", row)) == 1
    assert r"\& 50\% \$x\_1\$ \textasciitilde{}\textasciicircum{}\textbackslash{}" in row
    assert r"\textbf{$-$1.00} [$-$2.00, 0.10] n=3\dag{}" in row
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_latex_wraps_what_is_too_wide():
    narrow = latex(small(Entry("a"), Entry("b")))
    wide = latex(small(Entry("a" * 50), Entry("b" * 50)))
    assert r"\begin{tabular}{ll}" in narrow
    assert r"\begin{tabular}{p{0.47\linewidth}p{0.47\linewidth}}" in wide


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (-23.916, "nats", "−23.92"),
        (-0.001, "nats", "0.00"),
        (0.8751, "probability", "0.875"),
        (1.234e-7, "mass", "1.2e−07"),
        (float("nan"), "nats", "undefined"),
    ],
)
def test_numbers(value, unit, text):
    assert number(value, unit) == text


def pool() -> list[Item]:
    def item(number: int, action: str, operator: str) -> Item:
        return Item(
            f"i{number}",
            f"t{number // 2}",
            "system",
            "goal",
            (Turn("a()", "b"),),
            action,
            {"fail": "Error!" * number},
            gold_action="right()",
            operator=operator,
            error_family=f"family_{number % 2}",
        )

    return [item(1, "wrong_one()", "typo"), item(2, "wrong()", "typo"), item(3, "f()", "drop")]


def test_environments_in_numbers():
    published = pd.read_csv(PUBLISHED / "environments.csv")
    table = descriptions.environments({"toolshed": pool()}, published)
    ours, theirs = table.data.to_dict("records")
    assert (ours["items"], ours["tasks"], ours["operators"], ours["error_families"]) == (3, 2, 2, 2)
    assert ours["mean_action_chars"] == pytest.approx((11 + 7 + 3) / 3)
    assert ours["mean_observation_chars"] == pytest.approx(6 * 2)
    assert (theirs["source"], theirs["items"]) == ("published", 275)


def test_operators_have_their_shortest_example():
    data = descriptions.operators({"toolshed": pool()}).data.set_index("operator")
    assert data.loc["typo", "failed_action"] == "wrong()"
    assert data.loc["typo", "items"] == 2
    assert data.loc["drop", "observation"] == "Error!" * 3


def test_conditions_and_measures_are_described():
    table = descriptions.conditions(["pre", "fail", "pre"])
    assert [row[0].text for row in table.rows] == ["pre", "fail"]
    named = {row[0].text for row in descriptions.measures(["pre", "fail"]).rows}
    assert {"G", "repair", "p_repeat_shift"} <= named
    assert "copy" not in named
