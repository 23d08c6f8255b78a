"""The cluster bootstrap against scipy, a naive loop, and the properties that it must have."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from backfire import bootstrap
from backfire.bootstrap import (
    Sample,
    distribution,
    draws,
    exact_bound,
    percentiles,
    robust,
)

STREAM = ("toolshed", "all")


def clustered(n_clusters: int, seed: int = 0, sizes: tuple[int, ...] = (1, 2, 5)) -> Sample:
    """A mean of values that share an effect within clusters of unequal size."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), [sizes[c % len(sizes)] for c in range(n_clusters)])
    values = rng.normal(0, 3, n_clusters)[cluster] + rng.normal(-5, 2, len(cluster))
    return Sample(values, np.ones(len(values)), cluster, np.zeros(len(values)))


def interval(sample: Sample, resamples: int = 10_000, seed: int = 1) -> tuple[float, float]:
    return percentiles(distribution(sample, resamples, seed, STREAM), 0.95)


def test_equals_scipy_draw_for_draw(monkeypatch):
    """`scipy.stats.bootstrap` of the clusters' (sum, n), paired, with the very same generator."""
    sample = clustered(23)
    made = []
    original = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda *a: made.append(a) or original(*a))
    draws.cache_clear()
    ours = distribution(sample, 10_000, 7, STREAM)
    (seed,) = made
    sums, counts, _ = sample.sums()
    theirs = stats.bootstrap(
        (sums[0], counts[0]),
        lambda total, n, axis: total.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=original(*seed),
    )
    np.testing.assert_allclose(ours, theirs.bootstrap_distribution)
    assert percentiles(ours, 0.95) == pytest.approx(tuple(theirs.confidence_interval))


def test_agrees_with_a_naive_loop():
    """Draw whole tasks with the standard library, pool their items, take the mean."""
    sample = clustered(15)
    tasks: dict[int, list[float]] = {}
    for task, value in zip(sample.cluster, sample.numerator, strict=True):
        tasks.setdefault(int(task), []).append(float(value))
    rng = random.Random(3)
    means = []
    for _ in range(20_000):
        drawn = [tasks[rng.randrange(15)] for _ in range(15)]
        means.append(sum(map(sum, drawn)) / sum(map(len, drawn)))
    naive = np.quantile(means, [0.025, 0.975])
    spread = naive[1] - naive[0]
    np.testing.assert_allclose(interval(sample), naive, atol=0.03 * spread)


def test_wider_than_items_on_their_own():
    """Clusters share an effect, so pretending that items are independent is too narrow."""
    sample = clustered(20)
    alone = Sample(
        sample.numerator, sample.denominator, np.arange(len(sample.numerator)), sample.stratum
    )
    assert np.ptp(interval(sample)) > 1.3 * np.ptp(interval(alone))


def test_singleton_clusters_are_the_iid_bootstrap():
    values = np.random.default_rng(5).gamma(2, 3, 40)
    sample = Sample(values, np.ones(40), np.arange(40), np.zeros(40))
    iid = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    np.testing.assert_allclose(interval(sample), iid, atol=0.03 * np.ptp(iid))


def test_duplicating_every_row_changes_nothing():
    sample = clustered(12)
    twice = Sample(*(np.concatenate([part, part]) for part in vars(sample).values()))
    np.testing.assert_allclose(interval(twice), interval(sample))
    np.testing.assert_allclose(robust(twice, 0.95)[0], robust(sample, 0.95)[0])


def test_row_order_changes_nothing():
    sample = clustered(12)
    order = np.random.default_rng(1).permutation(len(sample.numerator))
    shuffled = Sample(*(part[order] for part in vars(sample).values()))
    np.testing.assert_allclose(interval(shuffled), interval(sample))
    np.testing.assert_allclose(robust(shuffled, 0.95)[0], robust(sample, 0.95)[0])


def test_names_of_clusters_change_nothing_but_the_draw():
    sample = clustered(12)
    named = np.array([f"task-{c:02d}" for c in sample.cluster], dtype=object)
    renamed = Sample(sample.numerator, sample.denominator, named, sample.stratum)
    assert interval(renamed) == interval(sample)


def test_resamples_depend_on_seed_and_stream_alone():
    assert np.array_equal(draws(9, 50, 1, STREAM), draws(9, 50, 1, STREAM))
    assert not np.array_equal(draws(9, 50, 1, STREAM), draws(9, 50, 2, STREAM))
    assert not np.array_equal(draws(9, 50, 1, STREAM), draws(9, 50, 1, ("toolshed", "step=1")))
    assert not np.array_equal(draws(9, 50, 1, ("ab", "c")), draws(9, 50, 1, ("a", "bc")))
    assert (draws(9, 50, 1, STREAM).sum(axis=1) == 9).all()


def test_blocks_change_no_draw(monkeypatch):
    whole = draws(9, 50, 1, STREAM)
    monkeypatch.setattr(bootstrap, "BLOCK", 64)
    draws.cache_clear()
    assert np.array_equal(draws(9, 50, 1, STREAM), whole)


def test_contrasts_resample_the_same_clusters():
    copy, sem = clustered(20, seed=1), clustered(20, seed=2)
    total = Sample(copy.numerator + sem.numerator, copy.denominator, copy.cluster, copy.stratum)
    parts = [distribution(sample, 1000, 1, STREAM) for sample in (copy, sem, total)]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2])


def test_robust_is_the_textbook_sandwich():
    sample = clustered(14)
    n, clusters = len(sample.numerator), 14
    residuals = sample.numerator - sample.numerator.mean()
    sums = np.bincount(sample.cluster, residuals)
    error = np.sqrt(clusters / (clusters - 1) * (sums**2).sum()) / n
    half = stats.t.ppf(0.975, clusters - 1) * error
    (low, high), p = robust(sample, 0.95)
    assert (low, high) == pytest.approx(
        (sample.numerator.mean() - half, sample.numerator.mean() + half)
    )
    t = sample.numerator.mean() / error
    assert p == pytest.approx(2 * stats.t.sf(abs(t), clusters - 1))


def test_bootstrap_and_sandwich_agree_on_many_clusters():
    """Two independent ways to the same standard error."""
    sample = clustered(300)
    spread = distribution(sample, 10_000, 1, STREAM).std()
    (low, high), _ = robust(sample, 0.95)
    assert spread == pytest.approx((high - low) / 2 / stats.t.ppf(0.975, 299), rel=0.03)


def test_ratio_of_sums():
    """A share is the ratio of the sums, and its linearised t interval agrees with the bootstrap."""
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(200), 2)
    below = rng.gamma(8, 2, 400)
    above = 0.8 * below + rng.normal(0, 1, 400)
    sample = Sample(above, below, cluster, np.zeros(400))
    assert sample.estimate() == pytest.approx(above.sum() / below.sum())
    assert sample.estimate() != pytest.approx((above / below).mean(), abs=1e-5)
    np.testing.assert_allclose(interval(sample), robust(sample, 0.95)[0], atol=5e-4)


def test_strata_count_the_same_whatever_their_size():
    values = np.array([1.0, 1.0, 1.0, 1.0, 3.0])
    stratum = np.array(["a", "a", "a", "a", "b"], dtype=object)
    sample = Sample(values, np.ones(5), np.array([0, 1, 2, 3, 0]), stratum)
    assert sample.estimate() == 2
    assert sample.linearised() @ sample.weights() / sample.weights().sum() == pytest.approx(2)


def test_strata_are_resampled_together():
    """The same tasks from each model: two equal models have the interval of one."""
    one = clustered(25)
    both = Sample(*(np.concatenate([part, part]) for part in vars(one).values()))
    labelled = Sample(
        both.numerator, both.denominator, both.cluster, np.repeat([0, 1], len(one.numerator))
    )
    assert interval(labelled) == pytest.approx(interval(one))


def test_a_share_over_strata_is_the_ratio_of_means():
    """As published: the mean numerator over models against the mean denominator."""
    sample = Sample(
        np.array([2.0, 4.0, 30.0]),
        np.array([4.0, 4.0, 40.0]),
        np.array([0, 1, 0]),
        np.array([0, 0, 1]),
    )
    assert sample.estimate() == pytest.approx((3 + 30) / (4 + 40))


@pytest.mark.parametrize("n", [1, 10, 57])
def test_exact_bound(n):
    assert exact_bound(n, 0.95) == pytest.approx(1 - 0.05 ** (1 / n))
