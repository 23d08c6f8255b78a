rule draw_figures:
    input:
        STUDY_INPUTS,
    output:
        FIGURES,
    log:
        "results/logs/draw_figures.log",
    benchmark:
        "results/benchmarks/draw_figures.tsv"
    conda:
        "../../envs/figures.yaml"
    params:
        outline=OUTLINE,
        code=digest_of("backfire.figures", "backfire.itemfigures", "backfire.results"),
        catalogue=code_digest([Path(catalogue.__file__)]),
    script:
        "../scripts/figures.py"
