rule check_scores:
    input:
        scores=score_shards,
        drawn=drawn_items,
        model=model_inputs,
        card="results/models/{model}/model.json",
    output:
        "results/checks/{model}/{environment}.json",
    log:
        "results/logs/check_scores/{model}/{environment}.log",
    benchmark:
        "results/benchmarks/check_scores/{model}/{environment}.tsv"
    params:
        pairs=config["checks"]["pairs"],
        seed=config["seed"],
        folder=model_folder,
        code=digest_of("backfire.checks"),
    threads: SCORING_THREADS
    resources:
        mem_mb=4000,
    conda:
        "../../envs/scores.yaml"
    script:
        "../scripts/check_scores.py"


rule measure:
    input:
        scores=score_shards,
        drawn=drawn_items,
    output:
        "results/measures/{model}/{environment}.parquet",
    log:
        "results/logs/measure/{model}/{environment}.log",
    benchmark:
        "results/benchmarks/measure/{model}/{environment}.tsv"
    params:
        code=digest_of("backfire.measures"),
    conda:
        "../../envs/analysis.yaml"
    script:
        "../scripts/measure.py"


rule estimate:
    input:
        "results/measures/{model}/{environment}.parquet",
    output:
        "results/estimates/{model}/{environment}.parquet",
    log:
        "results/logs/estimate/{model}/{environment}.log",
    benchmark:
        "results/benchmarks/estimate/{model}/{environment}.tsv"
    params:
        statistics=study.statistics(config),
        code=digest_of("backfire.estimates"),
    conda:
        "../../envs/analysis.yaml"
    script:
        "../scripts/estimate.py"
