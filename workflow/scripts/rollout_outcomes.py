"""Count what happened in the rollouts and branches of a model on an environment."""

from _job import job

with job(snakemake):
    from backfire.estimates import Statistics
    from backfire.rollout_metrics import OUTCOME_SCHEMA
    from backfire.rollout_results import outcomes, read_steps
    from backfire.storage import write_frame

    names, params = snakemake.wildcards, snakemake.params
    found = outcomes(
        read_steps(snakemake.input.rollouts),
        read_steps(snakemake.input.branches),
        params.attempts,
        names.model,
        names.environment,
        Statistics(**params.statistics),
    )
    write_frame(snakemake.output[0], found, OUTCOME_SCHEMA, params.statistics)
