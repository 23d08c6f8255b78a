# Stored scores against what the scorer gives today; made by the target `drift`, not by `all`.
import platform

from backfire.provenance import versions


rule check_drift:
    input:
        scores=score_shards,
        drawn=drawn_items,
        model=model_inputs,
        card="results/models/{model}/model.json",
    output:
        "results/drift/{model}/{environment}.json",
    log:
        "results/logs/check_drift/{model}/{environment}.log",
    priority: smaller_first
    conda:
        "../../envs/scores.yaml"
    threads: SCORING_THREADS
    resources:
        mem_mb=model_memory,
    params:
        pairs=config["checks"]["pairs"],
        seed=config["seed"],
        folder=model_folder,
        machine=f"{platform.machine()} {platform.node()}",
        versions=versions(),
        code=digest_of("backfire.checks"),
    script:
        "../scripts/check_drift.py"


rule drift:
    input:
        per_cell("results/drift/{model}/{environment}.json"),
