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
        code=digest_of("backfire.checks"),
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
    conda:
        "../../envs/analysis.yaml"
    params:
        code=digest_of("backfire.measures"),
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
    conda:
        "../../envs/analysis.yaml"
    params:
        statistics=study.statistics(config),
        code=digest_of("backfire.estimates"),
    script:
        "../scripts/estimate.py"


rule estimate_all_models:
    input:
        per_model_of_environment("results/measures/{model}/{environment}.parquet"),
    output:
        "results/estimates/{environment}.parquet",
    log:
        "results/logs/estimate_all_models/{environment}.log",
    benchmark:
        "results/benchmarks/estimate_all_models/{environment}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        models=models_of_environment,
        statistics=study.statistics(config),
        code=digest_of("backfire.estimates"),
    script:
        "../scripts/estimate_all_models.py"


rule make_tables:
    input:
        STUDY_INPUTS,
    output:
        shown(TABLES),
    log:
        "results/logs/make_tables.log",
    benchmark:
        "results/benchmarks/make_tables.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        outline=OUTLINE,
        code=digest_of(
            "backfire.tables",
            "backfire.variant_tables",
            "backfire.replication_tables",
            "backfire.descriptions",
            "backfire.results",
        ),
        catalogue=code_digest([Path(catalogue.__file__)]),
    script:
        "../scripts/tables.py"
