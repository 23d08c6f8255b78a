"""Draw every figure of the study."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.catalogue import FIGURES, figure_stems
    from backfire.results import Results
    from backfire.style import save

    results = Results(Path("results"), snakemake.params.outline)
    for name in figure_stems(results.outline):
        save(FIGURES[name].draw(results), Path("results/figures") / name)
