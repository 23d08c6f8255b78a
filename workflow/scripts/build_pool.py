"""Build the pool of an environment."""

from _job import job

with job(snakemake):
    from backfire.environments import KINDS
    from backfire.items import to_table
    from backfire.storage import write_table

    settings = snakemake.params.settings
    pool = KINDS[settings["kind"]].build_pool(settings, snakemake.params.seed)
    made = {"settings": settings, "seed": snakemake.params.seed, "notes": dict(pool.notes)}
    write_table(snakemake.output[0], to_table(pool.items), made)
