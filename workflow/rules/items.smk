rule fetch_mbpp:
    output:
        MBPP,  # pinned by checksum
    log:
        "results/logs/fetch_mbpp.log",
    localrule: True
    conda:
        "../../envs/items.yaml"
    script:
        "../scripts/fetch_mbpp.py"


rule build_pool:
    input:
        lambda wildcards: study.pool_inputs(config, wildcards.environment),
    output:
        "results/items/{environment}/pool.parquet",
    log:
        "results/logs/build_pool/{environment}.log",
    conda:
        "../../envs/items.yaml"
    params:
        settings=lambda wildcards: study.pool_settings(config, wildcards.environment),
        seed=config["seed"],
        code=lambda wildcards: digest_of(
            study.pool_module(config, wildcards.environment)
        ),
    script:
        "../scripts/build_pool.py"


rule draw_items:
    input:
        "results/items/{environment}/pool.parquet",
    output:
        "results/items/{environment}/{probe}.parquet",
    log:
        "results/logs/draw_items/{environment}/{probe}.log",
    localrule: True
    conda:
        "../../envs/items.yaml"
    params:
        n_items=lambda wildcards: config["probes"][wildcards.probe]["items"][
            wildcards.environment
        ],
        per_task=lambda wildcards: config["environments"][wildcards.environment].get(
            "per_task"
        ),
        shards=lambda wildcards: study.n_shards(
            config, wildcards.probe, wildcards.environment
        ),
        seed=config["seed"],
        code=digest_of("backfire.items"),
    script:
        "../scripts/draw_items.py"
