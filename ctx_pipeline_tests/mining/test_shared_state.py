"""No method proposes from observation what publishes, destroys or moves shared state; what proposes it waits for a person."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import Fact, consolidate, words_hash
from ctx_pipeline.memory.ranking import Recalled, rank
from ctx_pipeline.memory.scope import Place
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view

pytestmark = pytest.mark.feature("mining.shared-state")

ASK = "add a flag that skips hidden files please"
HERE = Place("/w/app", ("/w/app",))


def day(name, number):
    return view(name, start=START + number * 86_400 * SECOND)


def drawn(name, *sessions):
    method = discovery.methods()[name]
    found = [c for s in sessions for c in draw(method, s.build())[0]]
    return list(method.combine(found)) if method.combine else found


def lessons(name, *sessions):
    return consolidate(drawn(name, *sessions))


def answers(memory):
    return rank([Recalled(memory, 1.0, 1.0)], place=HERE, now=START + 90 * 86_400 * SECOND)


def everything(memories):
    return " ".join(f"{m.text} {m.when_to_use} {m.structured}" for m in memories)


def test_a_sequence_ends_before_a_push_and_none_goes_over_it():
    def released(name, number, *last):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py").shell("rails db:migrate", text="ok").shell("npm run lint", text="ok")
        for command in last:
            built = built.shell(command, text="ok")
        return built.prompt("what is left to do here?").shell("cargo test", text="ok")

    last = ("git add .", "git commit -m x", "git push", "npm run build")
    found = lessons("action_patterns", *(released(n, i, *last) for i, n in enumerate("abc")))
    assert found
    assert "push" not in everything(found)
    assert not any("git commit" in m.text and "npm run build" in m.text for m in found)
    instead = ("git add .", "git commit -m x", "git status", "npm run build")
    assert any(
        "git commit" in m.text and "npm run build" in m.text
        for m in lessons("action_patterns", *(released(n, i, *instead) for i, n in enumerate("abc")))
    )


LATER = ("loader", "weather in Rome", "colors of owls")


def test_turns_that_pushed_and_were_not_sent_back_do_not_teach_to_push():
    def turn(name, number, command, *, back):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py")
        built = built.shell(command, text="ok") if command else built
        return built.prompt("no, that is still broken" if back else f"thanks, now tell me about the {LATER[number]}")

    def told(command):
        good = [turn(f"c{n}", n, command, back=False) for n in range(3)]
        return lessons("action_patterns", *good, *(turn(f"u{n}", 10 + n, "", back=True) for n in range(3)))

    assert told("git push") == []
    assert len(told("make e2e")) == 1


def test_a_cure_that_pushes_is_of_high_risk_and_answers_only_after_a_person_read_it():
    session = day("a", 1).prompt(ASK).shell("make deploy ENV=prd", exit=2, text="error: invalid choice: prd")
    session = session.shell("make deploy ENV=prod", text="ok")
    (held,) = lessons("error_resolutions", session)
    assert (held.risk, held.status, list(held.flags)) == ("high", "needs_review", ["dangerous-command"])
    assert held.body["risk_reason"].startswith("proposes `")
    assert answers(held) == []
    rows = drawn("error_resolutions", session)
    plain = Fact("memory.accepted", {"memory_id": held.memory_id})
    assert consolidate(rows, [plain])[0].status == "needs_review"
    (kept,) = consolidate(rows, [Fact("memory.accepted", {**plain.payload, "reviewed": True, "words": words_hash(held)})])
    assert (kept.status, kept.risk, [s.memory for s in answers(kept)]) == ("accepted", "high", [kept])


def test_how_a_project_is_checked_leaves_out_what_deploys():
    sessions = [
        day(n, i).shell("make test", text="ok").shell("make deploy", text="ok").shell("make lint", text="ok") for i, n in enumerate("abc")
    ]
    (found,) = lessons("project_conventions", *sessions)
    assert "`make test`" in found.text
    assert "deploy" not in everything([found])


def test_a_deploy_before_a_check_is_no_success_pattern_and_a_refusal_names_no_other_way_to_publish():
    def checked(name, number, before, *, fine):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py")
        built = built.shell(before, text="ok") if before else built
        return built.shell("make test", exit=0 if fine else 1, text="ok" if fine else "E   KeyError: 'a'")

    def told(before):
        good = [checked(f"g{n}", n, before, fine=True) for n in range(3)]
        bad = [checked(f"b{n}", 10 + n, "", fine=False) for n in range(3)]
        return [m for m in lessons("reme", *good, *bad) if m.kind == "procedure"]

    assert told("./deploy.sh") == []
    assert len(told("./prepare.sh")) == 1
    (found,) = lessons("reme", day("r", 1).prompt(ASK).shell("docker push web", refused="use podman"))
    assert (found.kind, "steps" in found.body) == ("risk_rule", False)
    assert "podman push" not in everything([found])


def test_a_skill_and_a_procedure_keep_the_check_of_a_line_that_also_pushes():
    def changed(name, number, line):
        return (
            day(name, number)
            .prompt("add a flag to the export command that skips hidden files")
            .edit("/w/app/export.py", "/w/app/docs.md")
            .shell(line, text="ok")
        )

    (skill,) = lessons("skill_pro", *(changed(n, i, "make test && git push") for i, n in enumerate("ab")))
    assert skill.body["steps"][-1] == "run `make test`"
    assert (skill.risk, skill.status) == ("low", "candidate")
    assert lessons("skill_pro", *(changed(n, i, "make deploy") for i, n in enumerate("ab"))) == []
    course = changed("c", 3, "./deploy.sh").prompt("make the flag work with empty folders too please").edit("/w/app/export.py")
    (seen,) = (c for c in draw(discovery.methods()["memp_procedural"], course.shell("make test && git push", text="ok").build())[0])
    assert "push" not in seen.structured
    assert "deploy" not in seen.structured
    assert seen.body["verification"] == ["`make test`"]


def test_a_rule_of_the_person_that_says_to_force_push_waits_too():
    said = "always use git push --force when you update the branch"
    (held,) = lessons("repeated_corrections", day("a", 1).prompt(said), day("b", 2).prompt(said))
    assert (held.risk, held.status) == ("high", "needs_review")
    never = "never use git push --force when you update the branch"
    (rule,) = lessons("repeated_corrections", day("a", 1).prompt(never), day("b", 2).prompt(never))
    assert rule.status == "candidate"
