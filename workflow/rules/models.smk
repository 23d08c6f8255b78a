rule fetch_bundle:
    output:
        "resources/downloads/{bundle}.gguf",  # pinned by checksum
    log:
        "results/logs/fetch_bundle/{bundle}.log",
    localrule: True
    conda:
        "../../envs/models.yaml"
    script:
        "../scripts/fetch_bundle.py"


rule convert_bundle:
    input:
        "resources/downloads/{bundle}.gguf",
    output:
        directory("resources/models/bundled/{bundle}"),
    log:
        "results/logs/convert_bundle/{bundle}.log",
    conda:
        "../../envs/models.yaml"
    resources:
        mem_mb=4000,
    params:
        code=digest_of("backfire.gguf"),
    script:
        "../scripts/convert_gguf.py"


# A GGUF file of the user's own.
rule convert_gguf:
    input:
        lambda wildcards: GGUF_FILES[wildcards.gguf],
    output:
        directory("resources/models/gguf/{gguf}"),
    log:
        "results/logs/convert_gguf/{gguf}.log",
    conda:
        "../../envs/models.yaml"
    resources:
        mem_mb=lambda wildcards, input: round(2000 + 9 * input.size_mb),
    params:
        code=digest_of("backfire.gguf"),
    script:
        "../scripts/convert_gguf.py"


rule download_model:
    output:
        directory("resources/models/hub/{hub}"),
    log:
        "results/logs/download_model/{hub}.log",
    wildcard_constraints:
        hub=r"[\w.-]+/[\w.-]+(@[\w.-]+)?",
    localrule: True
    conda:
        "../../envs/models.yaml"
    params:
        lock=lambda wildcards, output: LOCK,  # not tracked: its place decides nothing
    script:
        "../scripts/download_model.py"


rule describe_model:
    input:
        model_inputs,
    output:
        "results/models/{model}/model.json",
    log:
        "results/logs/describe_model/{model}.log",
    priority: smaller_first
    conda:
        "../../envs/models.yaml"
    resources:
        mem_mb=2000,
    params:
        folder=model_folder,
        entry=model_identity,
        device=config.get("scoring", {}).get("device", "cpu"),
        code=digest_of("backfire.models"),
    script:
        "../scripts/describe_model.py"
