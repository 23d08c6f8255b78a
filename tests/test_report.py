"""The report is one safe page whose every number is a table's."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import fakes
import pandas as pd
import pytest

from backfire import figures, style, tables
from backfire.export import as_text
from backfire.items import Item
from backfire.report import render
from backfire.report_inputs import ReportInputs
from backfire.sections import SECTIONS
from backfire.summary import label
from backfire.worked import choose, work

STRENGTHS = {"smol": 1.0, "tiny+random": -0.1, "middling": 0.5}


def inputs(tmp_path: Path, *models: str, items: list[Item] | None = None) -> ReportInputs:
    """A study of the models on one environment, with its tables and the first figure."""
    drawn = items or fakes.items()
    cards = dict.fromkeys(models, fakes.CARD)
    labels = {model: label(model, card) for model, card in cards.items()}
    frames = [fakes.estimates(m, "toolshed", strength=STRENGTHS[m]) for m in models]
    estimates = pd.concat(frames, ignore_index=True)
    style.save(figures.decomposition(estimates, labels), tmp_path / "decomposition")
    built = {
        name: [tables.by_model(estimates, name, "toolshed", "toolshed", labels)]
        for name in ("gain", "repetition", "controls", "shares")
    }
    built["families"] = [tables.by_group(estimates, "error_family", "toolshed", "toolshed", labels)]
    check = {"model": models[0], "pairs": 12, "max_difference": 2e-5, "tolerance": 1e-3, "ok": True}
    return ReportInputs(
        estimates=estimates,
        cards=cards,
        scores={(m, "toolshed"): fakes.scores(drawn, STRENGTHS[m]) for m in models},
        items={"toolshed": drawn},
        chats={model: fakes.Chat() for model in models},
        figures={"decomposition": (tmp_path / "decomposition.svg").read_text(encoding="utf-8")},
        tables=built,
        checks=pd.DataFrame([check]),
        steps=pd.DataFrame([{"step": "score", "jobs": 4, "seconds": 210.5}]),
        versions={"torch": "2.13.0"},
        config="seed: 1\n",
    )


class Page(HTMLParser):
    """What the tests look at in a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.numbers: list[tuple[str, str, str]] = []  # title, file, text
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._number: tuple[str, str] | None = None
        self._rows: list[list[str]] | None = None
        self._skip = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self._skip = tag in ("style", "script")
        if "id" in at:
            self.ids.append(at["id"])
        self.links += [at[name] for name in ("href", "src", "srcset") if name in at]
        if tag == "a" and at.get("class") == "number":
            self._number = at["title"], at["href"]
        if tag == "table":
            self._rows = self.tables.setdefault(at["id"], [])
        if tag == "tr" and self._rows is not None:
            self._rows.append([])
        if tag == "td" and self._rows is not None:
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._skip = False
        if tag == "a":
            self._number = None
        if tag == "table":
            self._rows = None

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        self.text += data
        if self._number is not None:
            self.numbers.append((*self._number, data))
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] += data


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ReportInputs:
    return inputs(tmp_path_factory.mktemp("one"), "smol", "tiny+random")


@pytest.fixture(scope="module")
def page(study: ReportInputs) -> Page:
    return Page(render(study))


def test_every_number_in_words_is_an_estimate(study: ReportInputs, page: Page) -> None:
    assert len(page.numbers) > 20
    rows = study.estimates.set_index(["measure", "model", "environment", "group"])
    for title, _, text in page.numbers:
        measure, model, environment, group = re.fullmatch(
            r"(\S+) of (\S+) on (\S+), (\S+)", title
        ).groups()  # type: ignore[union-attr]
        row = rows.loc[(measure, model, environment, group)]
        scale = 100 if "%" in text else 1
        known = [scale * row[name] for name in ("mean", "ci_low", "ci_high")]
        known += [-value for value in known]
        if measure == "G_per_token":
            known.append(2.718281828459045 ** -row["mean"])
        digits = 1 if "%" in text else 2
        for printed in re.findall(r"[−-]?\d+(?:\.\d+)?", text):
            value = float(printed.replace("−", "-"))
            if "<" in text:
                assert any(0 < one < value for one in known), (title, text)
            else:
                assert value in [round(one, digits) for one in known], (title, text)


def test_every_number_links_to_a_file_that_holds_it(study: ReportInputs, page: Page) -> None:
    files = {f"tables/{t.name}.csv": t.data for shown in study.tables.values() for t in shown}
    files[study.source] = study.estimates
    seen = set()
    for title, file, _ in page.numbers:
        measure, model = re.match(r"(\S+) of (\S+) on", title).groups()  # type: ignore[union-attr]
        data = files[file]
        assert ((data["measure"] == measure) & (data["model"] == model)).any()
        seen.add(file)
    assert len(seen) > 2


def test_tables_are_shown_cell_by_cell(study: ReportInputs, page: Page) -> None:
    for shown in study.tables.values():
        for table in shown:
            cells = [[f"{e.text} {e.detail}".strip() for e in row] for row in table.rows]
            shown_cells = page.tables[f"table-{table.name}"][1:]
            assert [[cell.strip() for cell in row] for row in shown_cells] == cells


def test_all_numbers_are_there(study: ReportInputs, page: Page) -> None:
    whole = study.estimates[(study.estimates["group"] == "all") & study.estimates["mean"].notna()]
    assert len(page.tables["table-estimates"]) - 1 == len(whole)


def test_the_page_needs_nothing_else(study: ReportInputs, page: Page) -> None:
    html = render(study)
    assert "https://" not in html and "http://" not in html.replace("http://www.w3.org", "")
    assert {"link", "iframe", "object"}.isdisjoint(page.tags)
    for link in page.links:
        assert link.startswith(("#", "data:image/svg+xml;base64,", "tables/", "figures/"))
        if link.startswith("#"):
            assert link[1:] in page.ids
    assert len(page.ids) == len(set(page.ids))


def test_rendering_twice_gives_the_same_page(study: ReportInputs) -> None:
    assert render(study) == render(study)


def test_both_forms_of_a_figure_are_inside(page: Page) -> None:
    pictures = [link for link in page.links if link.startswith("data:")]
    assert len(pictures) == 2
    assert pictures[0] != pictures[1]


def test_sections_without_results_are_left_out(study: ReportInputs, page: Page) -> None:
    bare = Page(
        render(
            ReportInputs(
                estimates=study.estimates,
                cards=study.cards,
                scores={},
                items={},
                chats={},
                figures={},
            )
        )
    )
    absent = {"signmap", "sizes", "rollouts", "tokens", "replication", "items"}
    assert absent.isdisjoint(bare.ids)
    assert {f"#{section.name}" for section in SECTIONS} - set(bare.links) == {
        f"#{name}" for name in absent
    }
    assert "items" in page.ids
    assert "not re-checked" in bare.text


def test_a_failed_check_is_said_loudly(study: ReportInputs, page: Page) -> None:
    failed = replace(study, checks=study.checks.assign(ok=False))
    assert "distrust every number" in Page(render(failed)).text
    assert "distrust" not in page.text


def test_the_weights_stand_wherever_a_model_is_named(page: Page) -> None:
    for heading in re.findall(r"smol[^.]*? on toolshed", page.text):
        assert "4-bit Q4_1 weights" in heading


def test_a_model_without_a_single_score_is_said_to_have_none(study: ReportInputs) -> None:
    numbers = ["mean", "ci_low", "ci_high"]
    estimates = study.estimates.copy()
    estimates.loc[estimates["model"] == "smol", numbers] = float("nan")
    shown = Page(render(replace(study, estimates=estimates, scores={})))
    assert (
        "smol (4-bit Q4_1 weights) on toolshed: the standard record cannot be judged" in shown.text
    )
    assert "there is no score to judge by" in shown.text
    assert figures.decomposition(estimates, {"smol": "smol"}).axes


def test_many_models_get_one_line_each(tmp_path: Path) -> None:
    many = Page(render(inputs(tmp_path, *STRENGTHS)))
    assert "Of 3 pairs of model and environment" in many.text
    assert "backfires in 2; helps in 1" in many.text


def test_hostile_items_stay_text(tmp_path: Path, page: Page) -> None:
    hostile = inputs(tmp_path, "smol", "tiny+random", items=fakes.items(hostile=True))
    html = render(hostile)
    shown = Page(html)
    assert "</script><b>|x|</b> {{ 7*7 }} ${boom}" in shown.text
    assert "<b>" not in html
    assert shown.tags.count("script") == page.tags.count("script") == 1
    assert shown.tags.count("b") == 0


def test_hostile_names_stay_text(study: ReportInputs) -> None:
    name = '"><script>alert(1)</script>'
    renamed = replace(
        study,
        estimates=study.estimates.replace({"model": {"smol": name}}),
        cards={name: {**fakes.CARD, "weights": "<i>"}},
        scores={},
    )
    shown = Page(render(renamed))
    assert shown.tags.count("script") == 1
    assert shown.tags.count("i") == 0


def test_the_worked_items_follow_the_rule() -> None:
    drawn = fakes.items(4)
    scores = fakes.scores(drawn)
    failed = scores[scores["candidate"] == "failed"]
    wide = failed.pivot(index="item_id", columns="condition", values="logprob")
    gains = (wide["pre"] - wide["fail"]).sort_values()
    chosen = choose(scores)
    assert [item for item, _ in chosen] == [gains.index[3], gains.index[0]]
    assert gains.iloc[-1] < 0

    helped = (scores["item_id"] == "item-005") & (scores["condition"] == "fail")
    scores.loc[helped, "logprob"] = -500.0
    assert dict(choose(scores))["item-005"] == "the item on which the record helps most"
    assert choose(scores.iloc[:0].assign(condition="pre")) == []


def test_a_worked_item_shows_the_exact_prompt_and_its_tokens() -> None:
    drawn = fakes.items(4)
    cases = work(fakes.scores(drawn), drawn, fakes.Chat())
    assert {case.views[0].shared.count("one call.") for case in cases} == {1}
    for case in cases:
        pre, *others = case.views
        assert pre.condition == "pre" and not pre.tokens
        for view in others:
            assert (pre.shared + pre.tail).startswith(view.shared)
            assert "".join(token.text for token in view.tokens) == case.item.failed_action
            change = sum(token.gain for token in view.tokens)
            assert change == pytest.approx(view.logprob - pre.logprob)
            prompt = view.shared + view.tail
            assert f"\n{prompt}\n---- end" in as_text(case.item, fakes.Chat())
        assert case.gain == pytest.approx(pre.logprob - others[0].logprob)
