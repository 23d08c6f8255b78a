from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/items.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/rollouts.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/drift.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


onstart:
    prepare()
    follow_run()


onsuccess:
    end_run()


onerror:
    end_run()


rule all:
    default_target: True
    input:
        "results/report.html",
        "results/summary.txt",
        SUMMARIES,
        TABLES,
        FIGURES,
        ROLLOUT_TABLES,
        ROLLOUT_FIGURES,
        ROLLOUT_PAGE,


rule tables:
    input:
        TABLES,


rule figures:
    input:
        FIGURES,


rule report:
    input:
        "results/report.html",
