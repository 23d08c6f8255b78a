"""Score a sample of the stored scores once more, today, and say how far they have moved."""

from _job import job

with job(snakemake) as terminal:
    import torch

    from backfire.checks import drift, statement
    from backfire.items import from_table
    from backfire.storage import read_json, read_made, read_tables, write_json

    torch.set_num_threads(snakemake.threads)
    params, names = snakemake.params, snakemake.wildcards
    result = drift(
        read_tables(snakemake.input.scores),
        read_made(snakemake.input.scores[0]),
        from_table(read_tables(snakemake.input.drawn)),
        params.folder,
        read_json(snakemake.input.card),
        params.pairs,
        params.seed,
    )
    write_json(snakemake.output[0], result)
    print(statement(f"{names.model} on {names.environment}", result), file=terminal)
