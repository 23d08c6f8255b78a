"""Which tables and figures a study has, and what builds each. A new one is added here.

The workflow reads the names at every start, so the libraries that draw and calculate are
imported by the builders alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from backfire.conditions.registry import CORE
from backfire.numbering import file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from backfire.results import Results
    from backfire.tabular import Table

Outline = Mapping[str, Any]
"""What `config.outline` says of a study."""


def _always(outline: Outline) -> bool:
    return True


class Single(NamedTuple):
    """One table of the whole study, in files named `stem`; a study has it where `when` says so."""

    stem: str
    build: Callable[[Results], Table]
    when: Callable[[Outline], bool] = _always


class Drawing(NamedTuple):
    """A figure; a study has it where `when` says so."""

    draw: Callable[[Results], Figure]
    when: Callable[[Outline], bool] = _always


class PerEnvironment(NamedTuple):
    """A table for each environment; `file_name` names its files.

    A study has it where `when` says so of the conditions on the environment.
    """

    build: Callable[[Results, str, str], Table]
    when: Callable[[frozenset[str]], bool] = lambda conditions: True


def _having(*needed: str) -> Callable[[frozenset[str]], bool]:
    return lambda conditions: conditions.issuperset(needed)


def _more_than_core(conditions: frozenset[str]) -> bool:
    return not conditions.issubset(CORE)


def _beyond_core(outline: Outline) -> bool:
    return any(_more_than_core(_conditions_of(outline, name)) for _, name in outline["cells"])


def _several_models(outline: Outline) -> bool:
    return len({model for model, _ in outline["cells"]}) > 1


def _published_models(outline: Outline) -> bool:
    return bool(outline["published_as"])


def _by_model(table: str, *needed: str) -> PerEnvironment:
    def build(results: Results, environment: str, kind: str) -> Table:
        from backfire import tables

        return tables.by_model(results.estimates, table, environment, kind, results.labels)

    return PerEnvironment(build, _having(*needed))


def _by_group(dimension: str) -> PerEnvironment:
    def build(results: Results, environment: str, kind: str) -> Table:
        from backfire import tables

        return tables.by_group(results.estimates, dimension, environment, kind, results.labels)

    return PerEnvironment(build)


def _variants(results: Results, environment: str, kind: str) -> Table:
    from backfire import tables

    names = results.conditions
    return tables.by_condition(results.estimates, names, environment, kind, results.labels)


def _records(results: Results, environment: str, kind: str) -> Table:
    from backfire import spread, variant_tables

    names = results.conditions
    shown = variant_tables.records_of(names)
    others = [name for name in shown if name not in CORE]
    estimates = results.estimates_on(
        environment,
        lambda measures: spread.of_items(measures, others, any),
        variant_tables.needed(shown, variant_tables.RECORD_MEASURES),
    )
    return variant_tables.records(estimates, names, environment, kind, results.labels)


def _ladder(results: Results, environment: str, kind: str) -> Table:
    from backfire import spread, variant_tables

    names = results.conditions
    shown = variant_tables.ladder_of(names)
    estimates = results.estimates_on(
        environment,
        lambda measures: spread.of_items(measures, shown, all),
        variant_tables.needed(shown, variant_tables.LADDER_MEASURES),
    )
    return variant_tables.ladder(estimates, names, environment, kind, results.labels)


def _wordings(results: Results, environment: str, kind: str) -> Table:
    from backfire import variant_tables

    return variant_tables.wordings(results.within(results.wordings, environment), environment, kind)


def _overlap(results: Results, environment: str, kind: str) -> Table:
    from backfire import variant_tables

    return variant_tables.overlap(results.within(results.overlap, environment), environment, kind)


def _environments(results: Results) -> Table:
    from backfire import descriptions

    return descriptions.environments(results.pools, results.published_environments)


def _conditions(results: Results) -> Table:
    from backfire import descriptions

    return descriptions.conditions(results.conditions)


def _operators(results: Results) -> Table:
    from backfire import descriptions

    return descriptions.operators(results.pools)


def _sign_map(results: Results) -> Table:
    from backfire import tabular

    caption = (
        "Regression of log P(a | fail) on log P(a | pre) over items, nats, with intervals of the "
        "cluster bootstrap over tasks; the zero crossing is the baseline at which G is 0."
    )
    return tabular.of_frame("signmap", caption, results.labelled(results.sign_map))


def _deciles(results: Results) -> Table:
    from backfire import tabular

    caption = "Mean G (nats) by tenth of the items, from the least probable baseline up."
    return tabular.of_frame("deciles", caption, results.labelled(results.deciles))


def _holm(results: Results) -> Table:
    from backfire import tables

    return tables.holm(results.estimates, results.labels)


def _replication(results: Results) -> Table:
    from backfire import replication_tables

    return replication_tables.table(results.comparison, results.labels)


def _published(results: Results) -> Table:
    from backfire import replication_tables

    kinds = results.outline["kinds"]
    return replication_tables.coverage(results.comparison, results.published, kinds)


def _scaling(results: Results) -> Table:
    from backfire import tabular

    caption = (
        "The mean of a model against the logarithm of its number of parameters: slopes for ten "
        "times the parameters, with Student's intervals over models. No line is continued beyond "
        "the models that were measured."
    )
    return tabular.of_frame("scaling", caption, results.scaling)


TABLES: dict[str, Single | PerEnvironment] = {
    "environments": Single("table2", _environments),
    "conditions": Single("table10", _conditions),
    "operators": Single("table11", _operators),
    "gain": _by_model("gain"),
    "shares": _by_model("shares"),
    "repetition": _by_model("repetition"),
    "controls": _by_model("controls"),
    "variants": PerEnvironment(_variants, _more_than_core),
    "records": PerEnvironment(_records, _more_than_core),
    "ladder": PerEnvironment(_ladder, _having("mask_arguments")),
    "padding": _by_model("padding", "neut_pad"),
    "placebo": _by_model("placebo", "neut_unrelated"),
    "wordings": PerEnvironment(_wordings, _having("fail_w1")),
    "overlap": PerEnvironment(_overlap, _having("neut_echo")),
    "families": _by_group("error_family"),
    "G_operator": _by_group("operator"),
    "G_step": _by_group("step"),
    "G_template": _by_group("template"),
    "signmap": Single("signmap", _sign_map),
    "deciles": Single("deciles", _deciles),
    "holm": Single("holm", _holm),
    "scaling": Single("scaling", _scaling, _several_models),
    "replication": Single("replication", _replication),
    "published": Single("published", _published, _published_models),
}
"""The tables, by what they show; the report asks for them by these names."""


def _decomposition_figure(results: Results) -> Figure:
    from backfire import figures

    return figures.decomposition(results.estimates, results.labels)


def _per_length_figure(results: Results) -> Figure:
    from backfire import figures

    return figures.per_length(results.estimates, results.labels)


def _families_figure(results: Results) -> Figure:
    from backfire import figures

    return figures.family_heatmap(results.estimates, results.labels)


def _forest_figure(results: Results) -> Figure:
    from backfire import forest

    return forest.forest(results.estimates, results.labels)


def _sign_map_figure(results: Results) -> Figure:
    from backfire import itemfigures

    confidence = results.statistics.confidence
    return itemfigures.sign_map(results.measures, results.deciles, results.labels, confidence)


def _tokens_figure(results: Results) -> Figure:
    from backfire import itemfigures

    return itemfigures.token_trace(*results.traces, results.labels)


def _scaling_figure(results: Results) -> Figure:
    from backfire import studyfigures

    return studyfigures.scaling(results.estimates, results.scaling, results.sizes, results.families)


def _beside_published(results: Results) -> Figure:
    from backfire import studyfigures

    return studyfigures.beside_published(results.comparison)


FIGURES: dict[str, Drawing] = {
    "decomposition": Drawing(_decomposition_figure),
    "per_length": Drawing(_per_length_figure),
    "forest": Drawing(_forest_figure, _beyond_core),
    "families": Drawing(_families_figure),
    "signmap": Drawing(_sign_map_figure),
    "tokens": Drawing(_tokens_figure),
    "scaling": Drawing(_scaling_figure, _several_models),
    "replication": Drawing(_beside_published, _published_models),
}
"""The figures, by the stem of their files."""


def figure_stems(outline: Outline) -> list[str]:
    """The stems of all figure files, from the configuration alone."""
    return [name for name, drawing in FIGURES.items() if drawing.when(outline)]


def named_tables(outline: Outline) -> dict[str, tuple[str, str]]:
    """By the stem of its files, each table's name and environment, from the configuration alone.

    The environment of a table of the whole study is the empty string.
    """
    kinds = {environment: outline["kinds"][environment] for _, environment in outline["cells"]}
    named = {}
    for name, entry in TABLES.items():
        if isinstance(entry, Single):
            if entry.when(outline):
                named[entry.stem] = (name, "")
            continue
        for environment, kind in kinds.items():
            if entry.when(_conditions_of(outline, environment)):
                named[file_name(name, environment, kind)] = (name, environment)
    return named


def table_stems(outline: Outline) -> list[str]:
    """The stems of all table files, from the configuration alone."""
    return list(named_tables(outline))


def _conditions_of(outline: Outline, environment: str) -> frozenset[str]:
    """The conditions of the probes that run on an environment."""
    probes = [probe for probe, shards in outline["shards"].items() if environment in shards]
    return frozenset(name for probe in probes for name in outline["probes"][probe])


def build_tables(results: Results) -> dict[str, list[Table]]:
    """Every table, by what it shows.

    Raises:
        ValueError: a builder names its table otherwise than `table_stems` does.
    """
    built = {name: list(_build(entry, results)) for name, entry in TABLES.items()}
    stems = [table.name for group in built.values() for table in group]
    if stems != table_stems(results.outline):
        raise ValueError(f"tables are named {stems}, declared {table_stems(results.outline)}")
    return built


def _build(entry: Single | PerEnvironment, results: Results) -> Iterator[Table]:
    if isinstance(entry, Single):
        if entry.when(results.outline):
            yield entry.build(results)
        return
    for environment in results.environments:
        if entry.when(_conditions_of(results.outline, environment)):
            yield entry.build(results, environment, results.outline["kinds"][environment])
