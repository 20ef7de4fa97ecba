"""Names of tests as runners print them."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.test_names import named_tests

OUTPUTS = {
    "pytest, the summary": (
        "FAILED tests/test_a.py::test_sum[1 - 2] - assert 3 == 4\nERROR tests/test_b.py::test_x\n1 failed, 1 error in 0.12s",
        {"tests/test_a.py::test_sum[1 - 2]", "tests/test_b.py::test_x"},
        set(),
    ),
    "pytest, verbose": (
        "tests/test_a.py::test_one PASSED [ 50%]\na.py::test_two FAILED [100%]\n[gw1] [ 66%] PASSED tests/test_a.py::test_three \n",
        {"a.py::test_two"},
        {"tests/test_a.py::test_one", "tests/test_a.py::test_three"},
    ),
    "unittest": (
        "test_a (m.Case.test_a) ... ok\ntest_b (m.Case.test_b) ... FAIL\nFAIL: test_b (m.Case.test_b)\n",
        {"test_b (m.Case.test_b)"},
        {"test_a (m.Case.test_a)"},
    ),
    "jest": ("FAIL src/a.test.js\n  ● cart \u203a adds up\n\n    expect(received)\n", {"cart \u203a adds up"}, set()),
    "vitest": (
        " ✓ src/a.test.ts > cart > adds 3ms\n \u00d7 src/a.test.ts > cart > takes away 4ms\n FAIL  src/a.test.ts > cart > takes away\n",
        {"src/a.test.ts > cart > takes away"},
        {"src/a.test.ts > cart > adds"},
    ),
    "playwright": (
        "  ✓  1 [chromium] \u203a a.ts:3:5 \u203a logs in (1.2s)\n  ✘  2 [chromium] \u203a a.ts:9:5 \u203a logs out (2.0s)\n",
        {"[chromium] \u203a a.ts:9:5 \u203a logs out"},
        {"[chromium] \u203a a.ts:3:5 \u203a logs in"},
    ),
    "Go": (
        "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.10s)\n    --- FAIL: TestB/empty (0.00s)\nFAIL\nFAIL\tshop/cart\t0.12s\n",
        {"shop/cart TestB", "shop/cart TestB/empty"},
        {"shop/cart TestA"},
    ),
    "cargo": ("test cart::adds ... ok\ntest cart::takes ... FAILED\n", {"cart::takes"}, {"cart::adds"}),
    "nextest": (
        "        PASS [   0.005s] shop cart::adds\n        FAIL [   0.006s] (2/2) shop cart::takes\n",
        {"shop cart::takes"},
        {"shop cart::adds"},
    ),
    "gradle": ("CartTest > adds() PASSED\nCartTest > takes() FAILED\n", {"CartTest > takes()"}, {"CartTest > adds()"}),
    "googletest": ("[       OK ] Cart.Adds (0 ms)\n[  FAILED  ] Cart.Takes (1 ms)\n", {"Cart.Takes"}, {"Cart.Adds"}),
    "ctest": (
        "1/2 Test #1: cart ....................   Passed    0.00 sec\n2/2 Test #2: till ...................***Failed    0.01 sec\n",
        {"till"},
        {"cart"},
    ),
    "rspec": ("rspec ./spec/cart_spec.rb:12 # Cart adds up\n", {"./spec/cart_spec.rb:12"}, set()),
    "TAP": ("ok 1 - adds up\nnot ok 2 - takes away # time=3ms\n1..2\n", {"takes away"}, {"adds up"}),
}


@pytest.mark.feature("facts.test-names")
@pytest.mark.parametrize("runner", OUTPUTS)
def test_the_names_of_a_runner_are_read_with_their_verdicts(runner: str) -> None:
    output, failed, passed = OUTPUTS[runner]
    told = named_tests(output)

    assert (told.failed, told.passed, told.both, told.retried) == (failed, passed, set(), set())


@pytest.mark.feature("facts.test-names")
@pytest.mark.parametrize(
    "output",
    [
        "tests/test_a.py::test_net RERUN  [ 50%]\ntests/test_a.py::test_net PASSED  [ 50%]\n",
        "  1 flaky\n    [chromium] \u203a tests/a.spec.ts:3:5 \u203a logs in ──────\n  3 passed (4s)\n",
        "   FLAKY 2/3 [   0.006s] shop cart::adds\n",
    ],
    ids=["pytest", "playwright", "nextest"],
)
def test_what_a_runner_tried_again_is_told_apart(output: str) -> None:
    assert len(named_tests(output).retried) == 1


@pytest.mark.feature("facts.test-names")
def test_sums_and_logs_name_no_test_and_a_long_output_is_read_in_time() -> None:
    said = "12 passed in 0.3s\nINFO: all PASSED\nok, done\nAll tests passed (3)\nsrc/a.py: FAILED to load\n"

    assert not any(named_tests(said))
    assert not any(named_tests("test a b c ... \n" * 100_000 + "    --- \n" * 1_000 + "(" * 100_000))


@pytest.mark.feature("facts.test-names")
def test_a_name_with_both_verdicts_is_in_neither() -> None:
    told = named_tests("a/t.py::test_x PASSED\nFAILED a/t.py::test_x - boom\n")

    assert (told.passed, told.failed, told.both) == (set(), set(), {"a/t.py::test_x"})
