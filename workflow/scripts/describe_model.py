"""Write what identifies a model: fingerprint, size, dtype, chat template and its policy."""

from _job import job

with job(snakemake):
    from backfire.models import card
    from backfire.storage import write_json

    params = snakemake.params
    write_json(snakemake.output[0], card(params.folder, params.entry, params.device))
