# Checks the configuration and derives from it all that the rules share. No rules here.
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from backfire import config as study
from backfire import bundles, catalogue, locks, rollout_config
from backfire import models as model_library
from backfire.environments.coderepair.tasks import FILES as PROBLEM_FILES
from backfire.digests import code_digest, digest_of, files_digest
from backfire.errors import UserError
from backfire.user_conditions import digests

try:
    study.validate(config, str(workflow.configfiles[-1]))
except UserError as error:
    raise WorkflowError(str(error)) from None

# Whether this start will execute anything is known at `onstart` alone; but a lock that a killed
# run left must be cleared before Snakemake looks for it.
if workflow.is_main_process and not workflow.output_settings.dryrun:
    locks.try_hold(Path(".snakemake"))

SCORING_THREADS = config.get("scoring", {}).get("threads", 1)
MBPP = str(PROBLEM_FILES["mbpp"])
CELLS = study.cells(config)
OUTLINE = study.outline(config)
SUMMARIES = expand("results/models/{model}/summary.md", model=study.models_in(CELLS))
TABLES = ["results/tables/estimates.csv"] + expand(
    "results/tables/{stem}.{suffix}",
    stem=catalogue.table_stems(OUTLINE),
    suffix=["csv", "md", "tex"],
)
FIGURES = expand(
    "results/figures/{name}.{suffix}",
    name=catalogue.FIGURES,
    suffix=["pdf", "png", "svg"],
)


wildcard_constraints:
    model=study.one_of(config["models"]),
    environment=study.one_of(config["environments"]),
    probe=study.one_of(config["probes"]),
    condition=study.one_of(study.conditions_of(config)),
    bundle=study.one_of(bundles.BUNDLES),
    shard=r"\d+",
    item="[^/]+",


def hold_lock():
    try:
        locks.hold(Path(".snakemake"))
    except UserError as error:
        raise WorkflowError(str(error)) from None


def model_folder(wildcards):
    return model_library.folder_of(config["models"][wildcards.model]["source"])


def model_inputs(wildcards):
    """A folder that the workflow makes, or the files of the user's own."""
    source = config["models"][wildcards.model]["source"]
    return model_library.inputs_of(source)


def drawn_items(wildcards):
    probes = study.probes_of(config, wildcards.model, wildcards.environment)
    return expand(
        "results/items/{environment}/{probe}.parquet",
        environment=wildcards.environment,
        probe=probes,
    )


def shards_of(model, environment):
    """Every score shard of a model on an environment, over all probes."""
    return [
        f"results/scores/{probe}/{model}/{environment}/{condition}/{shard}.parquet"
        for probe in study.probes_of(config, model, environment)
        for condition in config["probes"][probe]["conditions"]
        for shard in range(study.n_shards(config, probe, environment))
    ]


def steps_of(kind, model, environment):
    """Every table of steps of a model's rollouts, or branches, on an environment."""
    files = rollout_config.files(config, kind, model, environment)
    return [f"results/{path}" for path in files]


def score_shards(wildcards):
    return shards_of(wildcards.model, wildcards.environment)


def per_cell(pattern):
    return [
        pattern.format(model=model, environment=environment)
        for model, environment in CELLS
    ]


def models_of_environment(wildcards):
    return [
        model for model, environment in CELLS if environment == wildcards.environment
    ]


def per_model_of_environment(pattern):
    """An input function: the pattern for each model of the rule's environment."""
    return lambda wildcards: [
        pattern.format(model=model, environment=wildcards.environment)
        for model in models_of_environment(wildcards)
    ]


def per_environment_of_model(pattern):
    """An input function: the pattern for each environment of the rule's model."""
    return lambda wildcards: [
        pattern.format(model=wildcards.model, environment=environment)
        for model, environment in CELLS
        if model == wildcards.model
    ]


# What the tables, the figures and the report read, as `results.Results` finds it.
STUDY_INPUTS = [
    *per_cell("results/estimates/{model}/{environment}.parquet"),
    *per_cell("results/measures/{model}/{environment}.parquet"),
    *[shard for cell in CELLS for shard in shards_of(*cell)],
    *expand("results/models/{model}/model.json", model=study.models_in(CELLS)),
    *expand(
        "results/items/{environment}/{name}.parquet",
        environment=study.environments_in(CELLS),
        name=["pool", "core"],
    ),
    *[
        "results/estimates/{}.parquet".format(environment)
        for environment in study.environments_in(CELLS)
        if len(study.models_in(CELLS)) > 1
    ],
]
