"""Write the verdict on one model and its numbers."""

from _job import job

with job(snakemake):
    from backfire.cells import Study
    from backfire.storage import read_json, read_tables, write_text
    from backfire.summary import summary

    params = snakemake.params
    card = read_json(snakemake.input.card)
    paths = [path for path in snakemake.input if path != snakemake.input.card]
    study = Study(read_tables(paths).to_pandas(), params.margin, params.confidence)
    write_text(snakemake.output[0], summary(study, snakemake.wildcards.model, card))
