"""Cluster bootstrap of ratios of sums, and the cluster-robust t interval beside it.

Items of one task share goal, prompt and history, so whole tasks are resampled. An
item-weighted mean is the ratio of two sums over tasks, of values and of counts; so are the
shares. Resampling the tasks' (sum, count) pairs therefore resamples the mean exactly.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import statsmodels.api as sm
from scipy import stats

Floats = npt.NDArray[np.float64]


BLOCK = 2_000_000
"""Draws made at once, which bounds memory; the draws do not depend on it."""


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Sample:
    """Observations of a ratio of sums, in one or more strata that weigh the same.

    Each array has one entry per observation (an item, or an item under one model).

    Attributes:
        numerator: what is summed above the line; for a mean, the values.
        denominator: what is summed below it; for a mean, ones.
        cluster: labels of what is resampled whole, the same in all strata.
        stratum: labels of the strata (models).
    """

    numerator: Floats
    denominator: Floats
    cluster: npt.NDArray[Any]
    stratum: npt.NDArray[Any]

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.cluster))

    def sums(self) -> tuple[Floats, Floats, Floats]:
        """Numerators, denominators and counts, each summed to (strata, clusters)."""
        stratum, rows = np.unique(self.stratum, return_inverse=True)
        cluster, columns = np.unique(self.cluster, return_inverse=True)
        totals = np.zeros((3, len(stratum), len(cluster)))
        for total, values in zip(
            totals, (self.numerator, self.denominator, np.ones(len(rows))), strict=True
        ):
            np.add.at(total, (rows, columns), values)
        return totals[0], totals[1], totals[2]

    def weights(self) -> Floats:
        """Weights that make each stratum count the same: one over its size."""
        _, rows, counts = np.unique(self.stratum, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / counts[rows])

    def estimate(self) -> float:
        """The ratio of the strata's mean numerators to their mean denominators."""
        weights = self.weights()
        return float((weights @ self.numerator) / (weights @ self.denominator))

    def linearised(self) -> Floats:
        """Values whose weighted mean is the estimate, and its first-order variation theirs.

        For a mean these are the values themselves. (Taylor linearisation of a ratio.)
        """
        weights = self.weights() / self.weights().sum()
        residual = self.numerator - self.estimate() * self.denominator
        return np.asarray(self.estimate() + residual / (weights @ self.denominator))


@lru_cache(maxsize=4)
def draws(
    n_clusters: int, resamples: int, seed: int, stream: tuple[str, ...]
) -> npt.NDArray[np.uint16]:
    """How often each resample takes each cluster, `(resamples, n_clusters)`.

    Depends on the arguments alone: with the same seed and stream, samples of as many clusters
    are resampled alike, so contrasts stay paired, and adding a sample changes no other.
    """
    digest = hashlib.sha256("\x1f".join(stream).encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])
    counts = np.empty((resamples, n_clusters), dtype=np.uint16)
    block = max(1, BLOCK // n_clusters)
    for start in range(0, resamples, block):
        part = counts[start : start + block]
        taken = rng.integers(0, n_clusters, part.shape)
        taken += n_clusters * np.arange(len(part))[:, None]
        part[:] = np.bincount(taken.ravel(), minlength=part.size).reshape(part.shape)
    return counts


def distribution(sample: Sample, resamples: int, seed: int, stream: tuple[str, ...]) -> Floats:
    """The estimate in each resample of the clusters, `(resamples,)`.

    The same as `scipy.stats.bootstrap` of the clusters' sums with `paired=True`, draw for
    draw; the draws are made once for all samples of a group, which is many times faster.
    """
    counts = draws(sample.n_clusters, resamples, seed, stream)
    # Not a BLAS product: the same bits on any number of threads.
    above, below, n = (np.einsum("rc,sc->rs", counts, part) for part in sample.sums())
    with np.errstate(divide="ignore", invalid="ignore"):  # a stratum without a resampled item
        return np.asarray((above / n).sum(axis=1) / (below / n).sum(axis=1))


def percentiles(distribution: Floats, confidence: float) -> Interval:
    """The percentile interval of a bootstrap distribution."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(distribution, [tail, 1 - tail])
    return Interval(float(low), float(high))


def robust(sample: Sample, confidence: float) -> tuple[Interval, float]:
    """The cluster-robust t interval of the estimate, and the two-sided p of zero.

    Least squares on a constant with cluster-robust covariance and t(clusters - 1), by
    statsmodels with its small-sample correction.
    """
    values = sample.linearised()
    fit = sm.WLS(values, np.ones_like(values), weights=sample.weights()).fit(
        cov_type="cluster",
        cov_kwds={"groups": pd.factorize(sample.cluster)[0]},
        use_t=True,
    )
    low, high = fit.conf_int(alpha=1 - confidence)[0]
    return Interval(float(low), float(high)), float(fit.pvalues[0])


def exact_bound(n: int, confidence: float) -> float:
    """The exact one-sided upper bound of a proportion of which 0 of `n` were seen."""
    test = stats.binomtest(0, n, alternative="less")
    return float(test.proportion_ci(confidence_level=confidence, method="exact").high)
