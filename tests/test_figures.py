"""The figures draw what the data frames hold, and draw it the same way each time."""

from __future__ import annotations

import itertools
from pathlib import Path

import fakes
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from backfire import figures, itemfigures, style
from backfire.cells import Study
from backfire.items import Item
from backfire.signmap import deciles
from backfire.trace import token_gains, token_kinds, token_texts, trace, trace_of

ONE = {"smol": "smol (4-bit Q4_1 weights)"}
LABELS = {**ONE, "A-Model-With-A-Long-Name-1.5B-Instruct": "A-Model-With-A-Long-Name-1.5B-Instruct"}


def estimates(labels: dict[str, str], environments: tuple[str, ...]) -> pd.DataFrame:
    cases = enumerate(itertools.product(labels, environments))
    return pd.concat(fakes.estimates(*case, seed=number % 2) for number, case in cases)


@pytest.fixture(scope="module")
def many() -> pd.DataFrame:
    return estimates(LABELS, ("toolshed", "coderepair"))


def drawn_bars(ax: plt.Axes) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def test_the_decomposition_draws_the_means(many: pd.DataFrame) -> None:
    figure = figures.decomposition(many, LABELS)
    study = Study(many)
    assert [ax.get_title("left") for ax in figure.axes] == ["toolshed", "coderepair"]
    for ax in figure.axes:
        environment = ax.get_title("left")
        expected = []
        for model in LABELS:
            for part in ("copy", "sem"):
                cell = study.get(model, environment, part)
                assert cell is not None
                expected.append(cell.mean)
        assert drawn_bars(ax) == pytest.approx(expected)
        totals = [
            line.get_xdata()[0] for line in ax.lines if line.get_marker() == style.PARTS["total"][2]
        ]
        gains = [study.get(model, environment, "G_decomposed") for model in LABELS]
        assert totals == pytest.approx([-cell.mean for cell in gains if cell])
        assert ax.get_xlim()[0] <= 0 <= ax.get_xlim()[1]


@pytest.mark.parametrize("labels", [ONE, LABELS], ids=["one model", "two models"])
def test_no_labels_overlap(labels: dict[str, str]) -> None:
    frame = estimates(labels, ("toolshed", "coderepair"))
    for figure in (figures.decomposition(frame, labels), figures.family_heatmap(frame, labels)):
        figure.canvas.draw()
        for ax in figure.axes:
            texts = [*ax.get_yticklabels(), *ax.texts, ax._left_title]
            boxes = [text.get_window_extent() for text in texts if text.get_text()]
            for one, other in itertools.combinations(boxes, 2):
                assert not one.overlaps(other)


def test_a_cell_whose_interval_contains_zero_stands_in_parentheses(many: pd.DataFrame) -> None:
    frame = many.copy()
    unclear = (frame["group"] == "error_family=unknown_tool") & (frame["model"] == "smol")
    frame.loc[unclear, ["ci_low", "ci_high"]] = [-1.0, 1.0]
    figure = figures.family_heatmap(frame, LABELS)
    for ax in figure.axes[:2]:
        notes = [text.get_text() for text in ax.texts]
        assert sum(note.startswith("(") for note in notes) == 1
        assert len(notes) == len(fakes.FAMILIES) * len(LABELS)


def test_a_model_may_lack_an_environment(many: pd.DataFrame) -> None:
    """The paper ran CodeRepair on three of its six models."""
    lacking = many[(many["model"] == "smol") | (many["environment"] == "toolshed")]
    whole, part = figures.family_heatmap(lacking, LABELS).axes[:2]
    assert (len(whole.get_xticks()), len(part.get_xticks())) == (2, 1)
    for draw in (figures.decomposition, figures.per_length):
        assert len(draw(lacking, LABELS).axes) == 2


def test_the_statement_counts_positive_cells() -> None:
    frame = fakes.estimates("smol", "toolshed")
    assert "None of the 4 cells is positive; in 4 of 4" in figures.families_statement(
        Study(frame), ONE
    )
    assert "No error family" in figures.families_statement(Study(frame), {"other": "other"})
    helped = fakes.estimates("smol", "toolshed", strength=-0.2, tasks=4)
    assert "4 of 4 cells are positive, 4 with" in figures.families_statement(Study(helped), ONE)
    assert "No error family" in figures.families_statement(Study(frame.iloc[:0]), ONE)


def test_gains_per_length_of_all_environments_share_an_axis(many: pd.DataFrame) -> None:
    study = Study(many)
    for ax, measure in zip(
        figures.per_length(many, LABELS).axes, ("G_per_token", "G_per_byte"), strict=True
    ):
        for environment in ("toolshed", "coderepair"):
            dots = [line for line in ax.lines if line.get_label() == environment]
            cells = [study.get(model, environment, measure) for model in LABELS]
            means = [cell.mean for cell in cells if cell]
            assert [dot.get_xdata()[0] for dot in dots] == pytest.approx(means)
            assert len(means) == len(LABELS)


def test_figures_of_nothing_say_so() -> None:
    empty = fakes.estimates("smol", "toolshed").iloc[:0]
    gains = token_gains(fakes.scores(fakes.items(2)).iloc[:0], fakes.items(2))
    traces = [
        trace(gains, by, fakes.STATISTICS, "t").assign(model="m", environment="t")
        for by in ("position", "kind")
    ]
    for figure in (
        figures.decomposition(empty, ONE),
        figures.per_length(empty, ONE),
        figures.family_heatmap(empty, ONE),
        itemfigures.token_trace(*traces, ONE),
    ):
        assert len(figure.axes[0].texts) == 1


@pytest.fixture(scope="module")
def sign_map() -> Figure:
    measures = {("smol", "toolshed"): fakes.measures()}
    tenths = deciles(fakes.measures(), "smol", "toolshed", fakes.STATISTICS)
    return itemfigures.sign_map(measures, tenths, ONE, 0.95)


def test_the_sign_map_shows_every_item_on_equal_axes(sign_map: Figure) -> None:
    (ax,) = sign_map.axes
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xlim()[1] == 0
    points = next(line for line in ax.lines if line.get_label() == "item")
    rows = fakes.measures().pivot(index="item_id", columns="measure", values="value")
    assert sorted(points.get_xdata()) == pytest.approx(sorted(rows["logprob_pre"]))
    assert sorted(points.get_ydata()) == pytest.approx(sorted(rows["logprob_fail"]))


def test_the_band_is_least_squares_with_clustered_errors() -> None:
    rng = np.random.default_rng(3)
    x = pd.Series(rng.normal(-30, 8, 40))
    y = pd.Series(2 + 0.6 * x + rng.normal(0, 2, 40))
    tasks = pd.Series([str(number // 4) for number in range(40)])
    band = itemfigures._band(x, y, tasks, 0.95)
    assert band is not None
    slope, intercept = np.polyfit(x, y, 1)
    assert band["mean"].to_numpy() == pytest.approx(slope * band["x"].to_numpy() + intercept)
    # The sandwich by hand, with the usual small-sample factor and t(clusters - 1).
    design = np.column_stack([np.ones(40), x])
    bread = np.linalg.inv(design.T @ design)
    residual = y.to_numpy() - design @ [intercept, slope]
    meat = np.zeros((2, 2))
    for task in tasks.unique():
        inside = (tasks == task).to_numpy()
        score = design[inside].T @ residual[inside]
        meat += np.outer(score, score)
    covariance = (10 / 9) * (39 / 38) * bread @ meat @ bread
    at = np.array([1.0, band["x"].iloc[0]])
    half = 2.2621571628 * np.sqrt(at @ covariance @ at)
    assert band["high"].iloc[0] - band["mean"].iloc[0] == pytest.approx(half, rel=1e-6)
    assert itemfigures._band(x, y, pd.Series(["one"] * 40), 0.95) is None


def test_token_kinds_of_a_call() -> None:
    call = 'send(to="é", n=[1, 2])'
    starts = [0, 4, 5, 7, 8, 11, 13, 14, 15, 21]
    assert token_texts(call, starts) == [
        "send", "(", "to", "=", '"é"', ", ", "n", "=", "[1, 2]", ")",
    ]  # fmt: skip
    assert token_kinds(call, starts) == [
        "tool name", "punctuation", "argument name", "punctuation", "value",
        "punctuation", "argument name", "punctuation", "value", "punctuation",
    ]  # fmt: skip


@pytest.mark.parametrize("action", ["def f(:", "x = 1", "f(1)\n+ g(2)", "a\0b", "(" * 300, ""])
def test_what_is_no_call_is_text(action: str) -> None:
    assert set(token_kinds(action, range(len(action)))) <= {"text"}


def test_token_gains_add_up_to_the_change() -> None:
    drawn = fakes.items(3)
    scores = fakes.scores(drawn)
    gains = token_gains(scores, drawn)
    failed = scores[scores["candidate"] == "failed"].set_index(["item_id", "condition"])["logprob"]
    for (item_id, condition), total in (
        gains.groupby(["item_id", "condition"])["gain"].sum().items()
    ):
        assert total == pytest.approx(failed[item_id, condition] - failed[item_id, "pre"])
    texts = gains[gains["condition"] == "fail"].groupby("item_id")["text"].apply("".join)
    assert texts.to_dict() == {item.item_id: item.failed_action for item in drawn}


def test_a_refused_score_has_no_tokens() -> None:
    drawn: list[Item] = fakes.items(3)
    scores = fakes.scores(drawn)
    gone = (scores["item_id"] == drawn[0].item_id) & (scores["condition"] == "pre")
    scores.loc[gone, "logprob"] = None
    scores["token_logprobs"] = scores["token_logprobs"].astype(object)
    scores.loc[gone, "token_logprobs"] = None
    assert drawn[0].item_id not in set(token_gains(scores, drawn)["item_id"])


def test_the_trace_is_the_mean_over_tokens() -> None:
    drawn = fakes.items()
    scores = {("smol", "toolshed"): fakes.scores(drawn)}
    by_position, by_kind = trace_of(scores, {"toolshed": drawn}, fakes.STATISTICS)
    gains = token_gains(scores["smol", "toolshed"], drawn)
    for row in by_kind.to_dict("records"):
        part = gains[(gains["condition"] == row["condition"]) & (gains["kind"] == row["kind"])]
        assert (row["mean"], row["n"]) == (pytest.approx(part["gain"].mean()), len(part))
        assert row["ci_low"] < row["mean"] < row["ci_high"]
    figure = itemfigures.token_trace(by_position, by_kind, ONE)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    drawn_line = lines[style.CONDITIONS["fail"].label]
    expected = by_position[by_position["condition"] == "fail"]
    assert list(drawn_line.get_ydata()) == pytest.approx(expected["mean"].tolist())


def test_each_environment_of_the_trace_has_kinds_of_its_own() -> None:
    drawn = fakes.items()
    scores = {("smol", "toolshed"): fakes.scores(drawn)}
    traces = trace_of(scores, {"toolshed": drawn}, fakes.STATISTICS)
    programs = [frame.assign(environment="programs") for frame in traces]
    programs[1] = programs[1][programs[1]["kind"] == "value"].assign(kind="text")
    both = [pd.concat(frames) for frames in zip(traces, programs, strict=True)]
    _, calls, _, text = itemfigures.token_trace(*both, ONE).axes

    def kinds(ax: plt.Axes) -> list[str]:
        return [tick.get_text().split("\n")[0] for tick in ax.get_yticklabels()]

    assert kinds(calls) == ["tool name", "argument name", "value", "punctuation"]
    assert kinds(text) == ["text"]


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        style.save(figures.decomposition(fakes.estimates("smol", "toolshed"), ONE), tmp_path / name)
    for kind in style.FORMATS:
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in "ab")
        assert first == second, kind
    assert not plt.get_fignums()


def test_a_dark_page_swaps_the_neutral_colours_alone(tmp_path: Path) -> None:
    style.save(figures.decomposition(fakes.estimates("smol", "toolshed"), ONE), tmp_path / "a")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    dark = style.darken(svg)
    assert style.INK in svg and style.PAPER in svg
    assert not any(colour in dark for colour in style.DARK)
    assert dark.count(style.PARTS["copy"].colour.lower()) == svg.count(
        style.PARTS["copy"].colour.lower()
    )


def test_series_stay_apart_without_colour() -> None:
    marks = [style.condition_mark(name) for name in ("fail", "succ", "neut", "abstract")]
    assert len({mark.marker for mark in marks}) == len({mark.line for mark in marks}) == 4
    assert style.PARTS["copy"].hatch != style.PARTS["sem"].hatch
    assert style.condition_mark("fail_echo") == style.condition_mark("fail_echo")
    assert all(to_hex(mark.colour) for mark in marks)
