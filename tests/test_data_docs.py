"""docs/data.md: its columns are those of the files, and its queries run."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from studies import Study

from backfire.estimates import ESTIMATE_SCHEMA
from backfire.items import DRAW_SCHEMA
from backfire.measures import MEASURE_SCHEMA
from backfire.scores import SCORE_SCHEMA


def sections(root: Path) -> dict[str, str]:
    text = (root / "docs/data.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def queries(root: Path, language: str) -> list[str]:
    """The page's queries, for the study of the tests."""
    found = [
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for text in sections(root).values()
    ]
    assert all(found), "a file without a query"
    return [query.replace("smollm2-135m", "tiny.v1+x") for some in found for query in some]


@pytest.mark.parametrize(
    ("section", "schema"),
    [
        ("Pools and draws", DRAW_SCHEMA),
        ("Scores", SCORE_SCHEMA),
        ("Measures", MEASURE_SCHEMA),
        ("Estimates", ESTIMATE_SCHEMA),
    ],
)
def test_every_column_is_described_and_no_other(
    root: Path, section: str, schema: pa.Schema
) -> None:
    rows = re.findall(r"^\| (`.+?) \|", sections(root)[section], re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(schema.names)


@pytest.mark.slow
def test_every_column_of_a_table_is_described(root: Path, finished: Study) -> None:
    described = sections(root)["Tables"] + sections(root)["Estimates"]
    names = set(re.findall(r"`(\w+)`", described)) | {
        f"{name}_{end}" for name in ("ours", "theirs", "difference") for end in ("low", "high")
    }
    paths = list((finished.folder / "results/tables").glob("*.csv"))
    assert paths
    for path in paths:
        columns = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
        assert [column for column in columns if column not in names] == [], path.name


@pytest.mark.slow
def test_the_pandas_queries_run(
    root: Path,
    finished: Study,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(finished.folder)
    for query in queries(root, "python"):
        exec(query, {})
        shown = capsys.readouterr().out
        assert shown.strip() and "Empty DataFrame" not in shown, query


@pytest.mark.slow
@pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed")
def test_the_duckdb_queries_run(
    root: Path, finished: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    monkeypatch.chdir(finished.folder)
    for query in queries(root, "sql"):
        assert duckdb.sql(query).fetchall(), query
