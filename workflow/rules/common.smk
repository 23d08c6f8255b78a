# Checks the configuration and derives from it all that the rules share. No rules here.
import os
import sys
from functools import cache
from pathlib import Path

import psutil
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from backfire import config as study
from backfire import bundles, catalogue, chat_templates, config_file, jobs, locks
from backfire import memory, pins
from backfire import planning, progress, rollout_config
from backfire import models as model_library
from backfire.environments.coderepair.tasks import problems_file
from backfire.digests import code_digest, digest_of, files_digest
from backfire.errors import UserError
from backfire.storage import sweep
from backfire.user_conditions import digests

digest_of = cache(digest_of)  # Snakemake asks for every job, and again at every step

# What --configfile gives is a study of its own, or else a part to lay over config.yaml.
if not config_file.stands_alone(config):

    configfile: config_file.BASE


os.environ[jobs.RUN] = str(os.getpid())  # the jobs end with this process

try:
    config_file.validate(config, " over ".join(map(str, workflow.configfiles)))
    # Whether this start will execute anything is known at `onstart` alone; but a lock that a
    # killed run left must be cleared before Snakemake looks for it.
    if workflow.is_main_process and not workflow.output_settings.dryrun:
        if not locks.try_hold(Path(".snakemake")):
            logger.warning(locks.held_by_another(Path(".snakemake")))
except UserError as error:
    raise WorkflowError(str(error)) from None

# Here, in the folder of the config, and kept by the models' names on the hub.
LOCK = Path(workflow.configfiles[-1]).resolve().parent / pins.LOCK_NAME
HUB_MODELS = study.hub_models(config)
NEEDED_MB = {name: memory.needed_mb(model) for name, model in config["models"].items()}

try:
    if faults := list(pins.faults(HUB_MODELS, LOCK)):
        raise UserError("\n".join(faults))
except UserError as error:
    raise WorkflowError(str(error)) from None

# On one machine, jobs share its memory, and models that are too large for it are left out.
if workflow.is_main_process and workflow.global_resources["_nodes"].value is None:
    total_mb = workflow.global_resources.setdefault(
        "mem_mb", psutil.virtual_memory().total // 10**6
    )
    for line in memory.leave_out(config, NEEDED_MB, total_mb.value):
        logger.warning(line)
    if not config["models"]:
        raise WorkflowError(
            "none of the models fits; --resources mem_mb=N sets the limit"
        )

SCORING_THREADS = config.get("scoring", {}).get("threads", 1)
MBPP = str(problems_file({"problems": "mbpp"}))
GGUF_FILES = study.gguf_files(config)
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
    name=catalogue.figure_stems(OUTLINE),
    suffix=["pdf", "png", "svg"],
)

# What Snakemake's report shows: of each table and figure the format that a browser reads.
NAMED_TABLES = catalogue.named_tables(OUTLINE) | {"estimates": ("estimates", "")}
SHOWN = {
    f"results/tables/{stem}.csv": report(
        f"results/tables/{stem}.csv",
        caption=f"../report/tables/{name}.rst",
        category="Tables",
        labels={"table": name, "environment": environment or "all"},
    )
    for stem, (name, environment) in NAMED_TABLES.items()
} | {
    f"results/figures/{name}.svg": report(
        f"results/figures/{name}.svg",
        caption=f"../report/figures/{name}.rst",
        category="Figures",
        labels={"figure": name},
    )
    for name in catalogue.figure_stems(OUTLINE)
}


wildcard_constraints:
    model=study.one_of(config["models"]),
    environment=study.one_of(config["environments"]),
    probe=study.one_of(config["probes"]),
    condition=study.one_of(study.conditions_of(config)),
    bundle=study.one_of(bundles.BUNDLES),
    gguf=study.one_of(GGUF_FILES),
    shard=r"\d+",
    item="[^/]+",


def shown(paths):
    """The paths as outputs, marked for Snakemake's report where it shows them."""
    return [SHOWN.get(path, path) for path in paths]


def prepare():
    """What a run does before its first job, and a dry run does not."""
    try:
        locks.hold(Path(".snakemake"))
        for folder in ("results", "resources"):
            sweep(folder)
        pins.adopt(HUB_MODELS, LOCK)
    except UserError as error:
        raise WorkflowError(str(error)) from None


def follow_run():
    """Show a bar per stage on a terminal."""
    needed = [job for job in workflow.dag.needrun_jobs() if job.output]
    total = sum(1 for job in workflow.dag.jobs if job.output)
    run = progress.Run(
        {
            job.jobid: progress.Job(job.rule.name, job.log[0], job.output[0])
            for job in needed
        },
        up_to_date=total - len(needed),
    )
    progress.begin(run, logger)


def end_run():
    logger.info(progress.end())


def model_folder(wildcards):
    return model_library.folder_of(config["models"][wildcards.model]["source"])


def model_inputs(wildcards):
    """A folder that the workflow makes, or the files of the user's own."""
    entry = config["models"][wildcards.model]
    template = chat_templates.files(entry.get("chat_template"))
    return [*model_library.inputs_of(entry["source"]), *template]


def scoring_minutes(probe):
    """A resource function: the time limit of a scoring job of the probe."""
    return lambda wildcards: planning.scoring_minutes(
        config, probe, wildcards.model, wildcards.environment
    )


def model_identity(wildcards):
    return study.identity(config, wildcards.model)


def model_memory(wildcards, attempt):
    """MB of a job that holds the model; more where a scheduler has killed it for want of it."""
    return attempt * NEEDED_MB[wildcards.model]


def acting_memory(wildcards, attempt):
    """With the cache of a batch of rollouts."""
    return model_memory(wildcards, attempt) + 2000


def smaller_first(wildcards):
    """A priority: the model's place from the end when all are ordered by their size."""
    place = (
        sorted(NEEDED_MB, key=NEEDED_MB.get, reverse=True).index(wildcards.model) + 1
    )
    return 1000 * place


def longer_first(probe):
    """A priority function: a model's long shards begin first, or the last would run alone."""

    def priority(wildcards):
        seconds = planning.shard_seconds(
            config, probe, wildcards.model, wildcards.environment
        )
        return smaller_first(wildcards) + min(999, int(seconds or 0))

    return priority


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
        path
        for probe in study.probes_of(config, model, environment)
        for shard in range(study.n_shards(config, probe, environment))
        for path in study.shard_files(config, probe, model, environment, shard)
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
    *[f"results/outcomes/{m}/{e}.parquet" for m, e in OUTLINE["rollouts"]],
]
