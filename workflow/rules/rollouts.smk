# Rollouts and the branch study: one job, and one file, for each harness and decoding.
from backfire.harnesses import HARNESSES

ROLLOUT_CELLS = rollout_config.cells(config)
# What the tables, the figures and the report read of rollouts, as `rollout_page.Page` finds it.
ROLLOUT_INPUTS = [
    *[f"results/outcomes/{m}/{e}.parquet" for m, e in ROLLOUT_CELLS],
    *[path for cell in ROLLOUT_CELLS for path in steps_of("rollouts", *cell)],
    *expand(
        "results/own_failures/{cell}/{name}.parquet",
        cell=[f"{m}/{e}" for m, e in ROLLOUT_CELLS],
        name=["items", "measures"],
    ),
    *[f"results/measures/{m}/{e}.parquet" for m, e in ROLLOUT_CELLS if (m, e) in CELLS],
    *expand("results/models/{model}/model.json", model=study.models_in(ROLLOUT_CELLS)),
]
ROLLOUT_TABLES = expand(
    "results/tables/{stem}.{suffix}",
    stem=rollout_config.table_stems(config),
    suffix=["csv", "md", "tex"],
)
ROLLOUT_FIGURES = expand(
    "results/figures/{name}.{suffix}",
    name=rollout_config.figure_stems(config),
    suffix=["pdf", "png", "svg"],
)
SHOWN |= {
    path: report(
        path,
        caption="../report/rollouts.rst",
        category="Rollouts",
        labels={"what": Path(path).stem, "kind": kind},
    )
    for kind, paths in [("table", ROLLOUT_TABLES), ("figure", ROLLOUT_FIGURES)]
    for path in paths
    if path.endswith((".csv", ".svg"))
}
ROLLOUT_PAGE = ["results/rollouts.md"] if ROLLOUT_CELLS else []


rule roll_out:
    input:
        lambda wildcards: study.pool_inputs(config, wildcards.environment),
        model=model_inputs,
        card="results/models/{model}/model.json",
    output:
        "results/rollouts/{model}/{environment}/{harness}/{decoding}.parquet",
    log:
        "results/logs/roll_out/{model}/{environment}/{harness}/{decoding}.log",
    benchmark:
        "results/benchmarks/roll_out/{model}/{environment}/{harness}/{decoding}.tsv"
    wildcard_constraints:
        harness=study.one_of(HARNESSES),
        decoding=r"greedy|seed\d+",
    priority: smaller_first
    conda:
        "../../envs/scores.yaml"
    threads: SCORING_THREADS
    resources:
        mem_mb=acting_memory,
    params:
        settings=lambda wildcards: study.pool_settings(config, wildcards.environment),
        plan=lambda wildcards: rollout_config.plan(config, wildcards.environment),
        steps=lambda wildcards: rollout_config.steps(
            config, wildcards.environment, "rollouts"
        ),
        temperature=lambda wildcards: rollout_config.temperature(
            config, wildcards.environment, wildcards.decoding
        ),
        seed=config["seed"],
        folder=model_folder,
        code=lambda wildcards: digest_of(
            "backfire.rollout_jobs",
            rollout_config.package(config, wildcards.environment),
        ),
    script:
        "../scripts/rollout.py"


# From right after the first failure of each greedy rollout, under every harness.
rule branch_out:
    input:
        lambda wildcards: study.pool_inputs(config, wildcards.environment),
        greedy="results/rollouts/{model}/{environment}/verbatim/greedy.parquet",
        model=model_inputs,
        card="results/models/{model}/model.json",
    output:
        "results/branches/{model}/{environment}/{harness}/{decoding}.parquet",
    log:
        "results/logs/branch_out/{model}/{environment}/{harness}/{decoding}.log",
    benchmark:
        "results/benchmarks/branch_out/{model}/{environment}/{harness}/{decoding}.tsv"
    wildcard_constraints:
        harness=study.one_of(HARNESSES),
        decoding=r"greedy|seed\d+",
    priority: smaller_first
    conda:
        "../../envs/scores.yaml"
    threads: SCORING_THREADS
    resources:
        mem_mb=acting_memory,
    params:
        settings=lambda wildcards: study.pool_settings(config, wildcards.environment),
        plan=lambda wildcards: rollout_config.plan(config, wildcards.environment),
        steps=lambda wildcards: rollout_config.steps(
            config, wildcards.environment, "branches"
        ),
        temperature=lambda wildcards: rollout_config.temperature(
            config, wildcards.environment, wildcards.decoding
        ),
        seed=config["seed"],
        folder=model_folder,
        code=lambda wildcards: digest_of(
            "backfire.rollout_jobs",
            rollout_config.package(config, wildcards.environment),
        ),
    script:
        "../scripts/rollout_branches.py"


# What the model got wrong by itself, through the probe's own conditions and measures.
rule score_own_failures:
    input:
        lambda wildcards: study.pool_inputs(config, wildcards.environment),
        steps=lambda wildcards: [
            f"results/rollouts/{wildcards.model}/{wildcards.environment}/verbatim/{decoding}.parquet"
            for decoding in rollout_config.decodings(
                config, wildcards.environment, "rollouts"
            )
        ],
        model=model_inputs,
        card="results/models/{model}/model.json",
    output:
        drawn="results/own_failures/{model}/{environment}/items.parquet",
        scores="results/own_failures/{model}/{environment}/scores.parquet",
        measures="results/own_failures/{model}/{environment}/measures.parquet",
    log:
        "results/logs/score_own_failures/{model}/{environment}.log",
    benchmark:
        "results/benchmarks/score_own_failures/{model}/{environment}.tsv"
    priority: smaller_first
    conda:
        "../../envs/scores.yaml"
    threads: SCORING_THREADS
    resources:
        mem_mb=model_memory,
    params:
        settings=lambda wildcards: study.pool_settings(config, wildcards.environment),
        plan=lambda wildcards: rollout_config.plan(config, wildcards.environment),
        seed=config["seed"],
        folder=model_folder,
        store="results/store",
        code=lambda wildcards: digest_of(
            "backfire.own_failures",
            "backfire.shards",
            "backfire.measures",
            rollout_config.package(config, wildcards.environment),
        ),
    script:
        "../scripts/rollout_own_failures.py"


rule estimate_rollouts:
    input:
        rollouts=lambda wildcards: steps_of(
            "rollouts", wildcards.model, wildcards.environment
        ),
        branches=lambda wildcards: steps_of(
            "branches", wildcards.model, wildcards.environment
        ),
    output:
        "results/outcomes/{model}/{environment}.parquet",
    log:
        "results/logs/estimate_rollouts/{model}/{environment}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        attempts=lambda wildcards: rollout_config.steps(
            config, wildcards.environment, "branches"
        ),
        statistics=study.statistics(config),
        code=digest_of("backfire.rollout_results"),
    script:
        "../scripts/rollout_outcomes.py"


rule show_rollouts:
    input:
        ROLLOUT_INPUTS,
    output:
        shown(ROLLOUT_TABLES),
        shown(ROLLOUT_FIGURES),
        page="results/rollouts.md",
    log:
        "results/logs/show_rollouts.log",
    conda:
        "../../envs/figures.yaml"
    params:
        outline=rollout_config.outline(config),
        probed=CELLS,
        statistics=study.statistics(config),
        code=digest_of("backfire.rollout_page"),
    script:
        "../scripts/rollout_page.py"


rule rollouts:
    input:
        ROLLOUT_TABLES,
        ROLLOUT_FIGURES,
        ROLLOUT_PAGE,
