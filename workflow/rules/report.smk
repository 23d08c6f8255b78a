rule summarise_model:
    input:
        per_environment_of_model("results/estimates/{model}/{environment}.parquet"),
        card="results/models/{model}/model.json",
    output:
        report(
            "results/models/{model}/summary.md",
            caption="../report/summary.rst",
            category="Models",
            labels={"model": "{model}"},
        ),
    log:
        "results/logs/summarise_model/{model}.log",
    conda:
        "../../envs/report.yaml"
    params:
        margin=OUTLINE["equivalence_margin"],
        confidence=config["statistics"]["confidence"],
        code=digest_of("backfire.summary"),
    script:
        "../scripts/summarise_model.py"


rule make_report:
    input:
        STUDY_INPUTS,
        TABLES,
        FIGURES,
        ROLLOUT_INPUTS,
        ROLLOUT_FIGURES,
        per_cell("results/checks/{model}/{environment}.json"),
    output:
        page=report(
            "results/report.html",
            caption="../report/page.rst",
            category="Report",
            labels={"page": "report"},
        ),
        summary="results/summary.txt",
    log:
        "results/logs/make_report.log",
    benchmark:
        "results/benchmarks/make_report.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        outline=OUTLINE,
        rollouts=rollout_config.outline(config),
        code=digest_of("backfire.reporting", "backfire.report"),
        templates=files_digest(Path(workflow.basedir) / "workflow/backfire/templates"),
    script:
        "../scripts/make_report.py"


rule export_prompts:
    input:
        model_inputs,
        drawn="results/items/{environment}/core.parquet",
        card="results/models/{model}/model.json",
    output:
        "results/prompts/{model}/{environment}/{item}.txt",
    log:
        "results/logs/export_prompts/{model}/{environment}/{item}.log",
    localrule: True
    conda:
        "../../envs/report.yaml"
    params:
        folder=model_folder,
        conditions=OUTLINE["probes"],
        code=digest_of("backfire.export", "backfire.chat"),
    script:
        "../scripts/export_prompts.py"
