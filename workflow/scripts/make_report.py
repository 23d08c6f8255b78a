"""Write the report, and the summary that a run prints at its end."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.report import render
    from backfire.reporting import closing_summary, gather
    from backfire.results import Results
    from backfire.storage import write_text

    results = Results(Path("results"), snakemake.params.outline)
    page = render(gather(results, snakemake.config, snakemake.params.rollouts))
    write_text(snakemake.output.page, page)
    write_text(snakemake.output.summary, closing_summary(results))
