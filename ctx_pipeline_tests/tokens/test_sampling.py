"""The sample of a project, repeated times, and how sure a total is."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ctx_pipeline.compression.benchmark import (
    Candidate,
    Times,
    benchmark_file,
    benchmark_project,
    interval,
    markdown,
    page_of_file,
    page_of_project,
    sample,
    times,
)

FILES = [Candidate(f"src/{n:03}.py", "python", n * 100) for n in range(1, 91)] + [
    Candidate(f"web/{n}.ts", "typescript", n) for n in range(1, 10)
]


@pytest.mark.feature("compress.benchmark-sample")
def test_the_sample_is_drawn_over_languages_and_sizes_and_the_same_for_the_same_seed():
    chosen = sample(FILES, most=33, seed=7)
    shuffled = FILES[:]
    random.Random(1).shuffle(shuffled)

    assert len(chosen) == 33
    assert Counter(one.language for one in chosen) == {"python": 30, "typescript": 3}
    small, medium, large = (
        sum(low < one.size <= high for one in chosen if one.language == "python") for low, high in [(0, 3000), (3000, 6000), (6000, 9000)]
    )
    assert (small, medium, large) == (10, 10, 10)
    assert sample(shuffled, most=33, seed=7) == chosen
    assert sample(FILES, most=33, seed=8) != chosen
    assert chosen == sorted(chosen)


@pytest.mark.feature("compress.benchmark-sample")
def test_a_small_project_is_measured_whole_and_few_places_still_reach_every_stratum_they_can():
    assert sample(FILES[:5], most=50) == FILES[:5]
    assert sample([], most=50) == []
    assert len(sample(FILES, most=2)) == 2
    assert Counter(one.language for one in sample(FILES, most=6)) == {"python": 3, "typescript": 3}


@pytest.mark.feature("compress.latency")
def test_times_are_told_as_median_and_95th_percentile():
    assert times([0.003, 0.001, 0.002]) == (pytest.approx(2000), pytest.approx(3000), 3)
    assert times([n / 1000 for n in range(1, 101)]) == (pytest.approx(50_500), pytest.approx(95_000), 100)
    assert times([]) == (0.0, 0.0, 0)


@pytest.mark.feature("compress.benchmark")
def test_the_interval_is_that_of_the_share_over_files_weighted_by_tokens():
    same = [(100, 40)] * 20
    assert interval(same) == (pytest.approx(0.6), pytest.approx(0.6))
    assert interval([(100, 25)]) == (0.75, 0.75)
    assert interval([]) == (0.0, 0.0)

    mixed = [(1000, 1000)] * 10 + [(1000, 0)] * 10
    low, high = interval(mixed, seed=3)
    assert 0.2 < low < 0.4
    assert 0.6 < high < 0.8
    assert interval(mixed, seed=3) == (low, high)


@pytest.mark.feature("compress.formats")
def test_times_are_columns_where_runs_were_timed_however_short_they_were_and_nowhere_else(tmp_path):
    (tmp_path / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    measured = benchmark_file(tmp_path / "cart.py", runs=0)
    timed = measured._replace(times={row.form: Times(0.0, 0.0, 1) for row in measured.rows})
    pages = [page_of_file(measured), page_of_project(benchmark_project(tmp_path, runs=0))]
    timed_pages = [page_of_file(timed), page_of_project(benchmark_project(tmp_path, runs=1))]

    assert [{"median", "p95"} & page.tables[0][1].keys() for page in pages] == [set(), set()]
    assert [{"median", "p95"} & page.tables[0][1].keys() for page in timed_pages] == [{"median", "p95"}] * 2
    assert ["| median |" in markdown(page) for page in (*pages, *timed_pages)] == [False, False, True, True]
    assert "| 0 µs | 0 µs |" in markdown(timed_pages[0])
