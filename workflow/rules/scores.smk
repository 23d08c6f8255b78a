# One rule per probe, since a rule's outputs cannot depend on its wildcards. A job scores all
# conditions of its probe on its shard, because they share most of their tokens.
for probe in config["probes"]:

    rule:
        name:
            f"score_{probe}"
        input:
            drawn=f"results/items/{{environment}}/{probe}.parquet",
            model=model_inputs,
            card="results/models/{model}/model.json",
        output:
            study.shard_files(config, probe, "{model}", "{environment}", "{shard}"),
        log:
            f"results/logs/score_{probe}/{{model}}/{{environment}}/{{shard}}.log",
        benchmark:
            f"results/benchmarks/score_{probe}/{{model}}/{{environment}}/{{shard}}.tsv"
        priority: longer_first(probe)
        conda:
            "../../envs/scores.yaml"
        threads: SCORING_THREADS
        resources:
            mem_mb=model_memory,
            runtime=scoring_minutes(probe),
        params:
            conditions=config["probes"][probe]["conditions"],
            own=digests(study.own_conditions(config, probe)),
            folder=model_folder,
            store="results/store",
            code=digest_of("backfire.shards", "backfire.user_conditions"),
        script:
            "../scripts/score.py"
