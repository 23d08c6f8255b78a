"""Each measure from its terms, on complete cases, and never from a refused score."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic

from backfire.answers import Answer, forced_choice
from backfire.conditions import CONDITIONS, Condition
from backfire.measures import MEASURE_SCHEMA, find, measure, measures_for, refusals
from backfire.scores import SCORE_SCHEMA

LOGPROBS = {
    ("pre", "failed"): -30.0,
    ("pre", "gold"): -28.0,
    ("pre", "distractor_1"): -31.0,
    ("pre", "distractor_2"): -29.0,
    ("fail", "failed"): -8.0,
    ("fail", "gold"): -20.0,
    ("fail", "distractor_1"): -25.0,
    ("fail", "distractor_2"): -9.0,
    ("abstract", "failed"): -27.0,
    ("abstract", "gold"): -26.0,
    ("abstract", "distractor_1"): -30.0,
    ("abstract", "distractor_2"): -28.0,
    ("succ", "failed"): -7.0,
    ("neut", "failed"): -10.0,
}


@pytest.fixture
def items() -> pd.DataFrame:
    return synthetic.items(3, per_task=(1,))


@pytest.fixture
def scores(items: pd.DataFrame) -> pd.DataFrame:
    """The first item has the log-probabilities above, the others made-up ones."""
    made = synthetic.scores(items)
    first = made["item_id"] == "item-00-0"
    keys = made.loc[first, ["condition", "candidate"]].itertuples(index=False, name=None)
    made.loc[first, "logprob"] = [LOGPROBS[key] for key in keys]
    greedy = first & (made["condition"] == "fail") & (made["candidate"] == "failed")
    made.loc[first, ["greedy_match", "greedy_stop"]] = False
    made.loc[greedy, "greedy_match"] = True
    return made


def values(scores: pd.DataFrame, items: pd.DataFrame, item: str = "item-00-0") -> dict[str, float]:
    found = measure(scores, items)
    return found[found["item_id"] == item].set_index("measure")["value"].to_dict()


def refuse(scores: pd.DataFrame, item: str, condition: str, candidate: str) -> pd.DataFrame:
    """The same scores with one refused, as the shards hold a refusal."""
    refused = scores.astype({"greedy_match": object, "greedy_stop": object})
    row = (
        (scores["item_id"] == item)
        & (scores["condition"] == condition)
        & (scores["candidate"] == candidate)
    )
    assert row.sum() == 1
    refused.loc[row, ["logprob", "token_logprobs", "greedy_match", "greedy_stop", "min_gap"]] = None
    refused.loc[row, "refused"] = "does not fit the window"
    return refused


def test_every_measure_follows_its_definition(scores, items):
    found = values(scores, items)
    assert found["G"] == found["G_decomposed"] == -22
    assert found["G_per_token"] == pytest.approx(-22 / 6)
    assert found["G_per_byte"] == pytest.approx(-22 / len(synthetic.ACTION))
    assert found["G_negative"] == 1
    assert (found["copy"], found["sem"]) == (20, 2)
    assert (found["copy_succ"], found["polarity"]) == (23, -1)
    assert (found["G_abstract"], found["delta_abstract"]) == (-3, -19)
    assert (found["repair"], found["margin_shift"]) == (8, -14)
    assert (found["logprob_pre"], found["logprob_fail"]) == (-30, -8)
    assert (found["greedy_repeat_pre"], found["greedy_repeat_fail"]) == (0, 1)
    assert found["greedy_repeat_fail_stop"] == 0


def test_forced_choice_among_four(scores, items):
    found = values(scores, items)
    for condition in ("pre", "fail", "abstract"):
        four = [math.exp(LOGPROBS[condition, candidate]) for candidate in synthetic.CANDIDATES]
        assert found[f"p_repeat_{condition}"] == pytest.approx(four[0] / sum(four))
        assert found[f"candidate_mass_{condition}"] == pytest.approx(sum(four))
        assert found[f"log_odds_{condition}"] == pytest.approx(math.log(four[0] / sum(four[1:])))
    assert found["p_repeat_shift"] == found["p_repeat_fail"] - found["p_repeat_pre"]
    assert found["log_odds_shift"] == found["log_odds_fail"] - found["log_odds_pre"]


def test_identities_hold_for_every_item(scores, items):
    wide = measure(scores, items).pivot(index="item_id", columns="measure", values="value")
    np.testing.assert_allclose(-wide["G"], wide["copy"] + wide["sem"])
    np.testing.assert_allclose(-wide["G"], wide["copy_succ"] + wide["polarity"])
    np.testing.assert_allclose(wide["margin_shift"], wide["repair"] + wide["G"])


def test_decomposition_is_on_complete_cases(scores, items):
    found = values(refuse(scores, "item-00-0", "neut", "failed"), items)
    assert not {"copy", "sem", "G_decomposed", "logprob_neut", "greedy_repeat_neut"} & set(found)
    assert found["G"] == -22
    assert found["polarity"] == -1


def test_a_refused_pre_leaves_nothing_of_the_copy_term(scores, items):
    """log P(a | fail) - log P(a | neut) exists, yet the decomposition it belongs to does not."""
    found = values(refuse(scores, "item-00-0", "pre", "failed"), items)
    assert not {"G", "copy", "sem", "p_repeat_pre", "p_repeat_fail", "repair_"} & set(found)
    assert found["repair"] == 8


def test_a_refused_candidate_leaves_no_forced_choice(scores, items):
    found = values(refuse(scores, "item-00-0", "fail", "distractor_1"), items)
    assert not [name for name in found if name.startswith(("p_repeat", "log_odds", "candidate"))]
    assert found["repair"] == 8


def test_refusals_are_counted_and_never_valued(scores, items):
    refused = refuse(scores, "item-01-0", "abstract", "failed")
    assert measure(refused, items)["value"].notna().all()
    assert refusals(refused).to_dict("records") == [
        {
            "condition": "abstract",
            "candidate": "failed",
            "refused": "does not fit the window",
            "n": 1,
        }
    ]


def test_items_without_gold_show_what_they_can(scores, items):
    found = values(scores[scores["candidate"] == "failed"], items)
    assert {"G", "copy", "sem", "G_abstract", "greedy_repeat_fail"} <= set(found)
    assert not {"repair", "margin_shift", "p_repeat_fail", "candidate_mass_pre"} & set(found)


def four(**changed: Answer | None) -> dict[str, Answer | None]:
    names = ("failed", "gold", "distractor_1", "distractor_2")
    answers = {name: Answer(-1.0 - k, (k, 7, 8)) for k, name in enumerate(names)}
    return {**answers, **changed}


def test_forced_choice_needs_four():
    assert forced_choice(four()) is not None
    assert forced_choice(four(gold=None)) is None
    lacking = four()
    del lacking["distractor_2"]
    assert forced_choice(lacking) is None


@pytest.mark.parametrize("prefix", [(0,), (0, 7), (0, 7, 8)])
def test_forced_choice_refuses_a_token_prefix(prefix):
    assert forced_choice(four(gold=Answer(-2.0, prefix))) is None
    assert forced_choice(four(gold=Answer(-2.0, (0, 9)))) is not None


def test_forced_choice_offers_the_first_two_distractors():
    more = {**four(), "distractor_10": Answer(5.0, (10,)), "distractor_3": Answer(9.0, (11,))}
    assert forced_choice(more) == forced_choice(four())


def test_forced_choice_stands_very_improbable_candidates():
    far = {name: Answer(-2000.0 - k, (k,)) for k, name in enumerate(four())}
    choice = forced_choice(far)
    assert choice is not None
    assert choice.probability == pytest.approx(1 / sum(math.exp(-k) for k in range(4)))


def test_a_score_twice_is_an_error(scores, items):
    with pytest.raises(ValueError, match=r"scored twice: \('item-00-0', 'pre', 'failed'\)"):
        measure(pd.concat([scores, scores.iloc[:1]]), items)


def test_a_score_of_an_unknown_item_is_an_error(scores, items):
    with pytest.raises(ValueError, match="not among the drawn"):
        measure(scores, items.iloc[1:])


def test_an_infinite_score_is_an_error(scores, items):
    with pytest.raises(ValueError, match="not finite"):
        measure(scores.assign(logprob=scores["logprob"].replace(-30.0, -np.inf)), items)


def test_row_order_does_not_matter(scores, items):
    shuffled = measure(scores.sample(frac=1, random_state=1), items.iloc[::-1])
    pd.testing.assert_frame_equal(shuffled, measure(scores, items))


def test_conditions_decide_the_measures(scores, items):
    for condition in synthetic.CORE:
        rest = scores[scores["condition"] != condition]
        allowed = measures_for(c for c in synthetic.CORE if c != condition)
        assert all(condition not in measure.conditions for measure in allowed.values())
        assert set(measure(rest, items)["measure"]) <= set(allowed)


def test_a_new_condition_brings_its_measures(scores, items, monkeypatch):
    new = Condition("fail_test", "a test", CONDITIONS["fail"].write, every_candidate=False)
    monkeypatch.setitem(CONDITIONS, "fail_test", new)
    written = scores[(scores["condition"] == "neut")].assign(condition="fail_test")
    found = values(pd.concat([scores, written]), items)
    assert found["G_fail_test"] == -20
    assert found["delta_fail_test"] == -2
    assert found["G_fail_test_per_token"] == pytest.approx(-20 / 6)
    assert find("fail_test_removed").ratio is not None


def test_the_way_through_the_files(scores, items, tmp_path):
    """Shards read back from Parquet, nulls in nullable columns and all, give the same measures."""
    refused = refuse(scores, "item-01-0", "pre", "gold")
    pq.write_table(
        pa.Table.from_pandas(refused, schema=SCORE_SCHEMA, preserve_index=False), tmp_path / "s"
    )
    back = measure(pq.read_table(tmp_path / "s").to_pandas(), items)
    pd.testing.assert_frame_equal(back, measure(refused, items))
    pa.Table.from_pandas(back, schema=MEASURE_SCHEMA, preserve_index=False)


def test_no_items_are_an_empty_table_of_the_schema(
    scores: pd.DataFrame, items: pd.DataFrame
) -> None:
    """As of a model that made no failures of its own."""
    none = measure(scores.iloc[:0], items.iloc[:0])
    assert pa.Table.from_pandas(none, schema=MEASURE_SCHEMA, preserve_index=False).num_rows == 0
