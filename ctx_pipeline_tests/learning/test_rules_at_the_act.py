"""A rule is told before the act that it forbids, and before no other that has words of it."""

from __future__ import annotations

import json
import time

import pytest

from ctx_pipeline.learning.at_act import after_failure, at_prompt, before_command
from ctx_pipeline.learning.file_rules import before_change
from ctx_pipeline.mining.lessons.rules.said_rules import contradict, replaced, rule, same
from ctx_pipeline.model.memories import Memory


def said(text: str) -> Memory:
    meant = rule(text)
    assert meant is not None
    body = {"want": sorted(meant.want), "avoid": sorted(meant.avoid), "instead_of": sorted(replaced(meant))}
    return Memory("m-rule", "user_preference", text, structured=json.dumps(body), confidence=0.8, support=2)


def setup(error: str, cure: str) -> Memory:
    from ctx_pipeline.mining.lessons.failures import signature

    body = {"error": error, "signature": signature(error), "resolution": "setup", "did": [cure], "failed": "pytest -q", "subject": "pytest"}
    return Memory("m-setup", "tool_lesson", f"run `{cure}` first", structured=json.dumps(body), confidence=0.8, support=2)


@pytest.fixture
def checkout(tmp_path):
    """Return what makes a checkout whose current branch has a name."""

    def make(branch):
        git = tmp_path / branch.replace("/", "-") / ".git"
        git.mkdir(parents=True)
        (git / "HEAD").write_text(f"ref: refs/heads/{branch}\n", "utf-8")
        return str(git.parent)

    return make


PUSHES_MAIN = (
    "git push origin main",
    "git push -u origin main",
    "git push --force-with-lease origin main",
    "git push origin HEAD:main",
    "git push origin fix:refs/heads/main",
    "git push origin +main",
    "git push origin :main",
    "git push --delete origin main",
    "git push --all",
    "git push --mirror backup",
    "git push origin fix main",
    "git checkout main && git merge fix && git push",
    "npm test && git push origin main --tags",
    "git -C . push origin main",
    "sudo git push origin 'main'",
)
PUSHES_OTHERS = (
    "git push origin main-fix",
    "git push origin fix/main",
    "git push origin main:fix",
    "git push origin v1.2",
    "git push --tags",
    "git push origin refs/tags/main",
    "git push origin tag main",
    "git push --dry-run origin main",
    "git checkout -b fix main && git push -u origin fix",
    "git pull origin main && git push origin fix",
    "git fetch origin main",
    "git log main..fix --grep push",
    "git commit -m 'never push to main'",
    "git push --force-with-lease=main origin fix",
    "git switch fix && git push",
    "gh pr create --base main --title 'push'",
    "git rebase main && git push -f origin HEAD",
    "cat push.sh main.py",
)


@pytest.mark.feature("hooks.rule-of-branch")
@pytest.mark.parametrize("text", ["never push to main", "don't push directly to main or master", "main 브랜치에 절대 푸시하지 마"])
def test_a_push_to_main_is_told_in_every_way_it_is_typed_and_no_other_act_is(checkout, text):
    told, fix = [said(text)], checkout("fix")
    assert [c for c in PUSHES_MAIN if not before_command(c, told, fix)] == []
    assert [c for c in PUSHES_OTHERS if before_command(c, told, fix)] == []


@pytest.mark.feature("hooks.rule-of-branch")
def test_a_push_that_names_no_branch_is_of_the_one_that_is_checked_out(checkout, tmp_path):
    told = [said("never push to main")]
    main, fix = checkout("main"), checkout("fix/main")
    for command in ("git push", "git push origin", "git push origin HEAD", "git push -f", "(git push)"):
        assert before_command(command, told, main) == told
        assert before_command(command, told, fix) == []
        assert before_command(command, told) == []
    assert before_command("git switch -c fix && git push", told, main) == []
    assert before_command(f"cd {main} && git push", told, fix) == told
    assert before_command(f"git -C {main} push", told, fix) == told
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "own").mkdir()
    (tree / ".git").write_text(f"gitdir: {tmp_path}/own\n", "utf-8")
    (tmp_path / "own" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    assert before_command("git push", told, str(tree)) == told


@pytest.mark.feature("hooks.rule-of-branch")
def test_a_rule_of_commits_and_of_force_holds_for_these(checkout):
    main, fix = checkout("main"), checkout("fix")
    committed, forced = [said("don't commit directly to main")], [said("never force push to main")]
    assert before_command("git commit -am x", committed, main) == committed
    assert before_command("git commit -am x", committed, fix) == []
    assert before_command("git push origin main", committed, fix) == []
    assert before_command("git push --force origin main", forced, fix) == forced
    assert before_command("git push origin main", forced, fix) == []


@pytest.mark.feature("hooks.rule-of-branch")
def test_a_rule_of_both_acts_holds_for_both_and_force_beside_the_plain_push_narrows_nothing(checkout):
    main = checkout("main")
    for text in ("never commit or push to main", "Never push or commit directly to main"):
        for command in ("git push origin main", "git commit -am x"):
            assert before_command(command, [said(text)], main), (text, command)
    for text in ("Never push to main, not even with --force", "never push or force push to main"):
        assert before_command("git push origin main", [said(text)], main), text


@pytest.mark.feature("hooks.rule-of-branch")
@pytest.mark.parametrize(
    "text", ["don't commit node_modules to git", "never commit node_modules to the repo", "don't commit node_modules to main"]
)
def test_a_rule_of_what_is_committed_is_told_at_no_other_commit(checkout, text):
    told, main = [said(text)], checkout("main")
    assert before_command("git add src/a.py && git commit -m x", told, main) == []
    if not text.endswith("main"):
        assert before_command("git add node_modules && git commit -m x", told, main) == told


@pytest.mark.feature("hooks.rule-of-branch")
def test_a_rule_of_pushes_to_the_remote_is_of_every_push():
    for text in ("never push to GitHub", "don't push to the remote"):
        assert before_command("git push", [said(text)]), text
        assert before_command("git commit -m x && git pull", [said(text)]) == [], text


@pytest.mark.feature("hooks.rule-of-branch")
def test_a_checkout_of_files_changes_no_branch_and_the_branch_before_is_not_known(checkout):
    told, main = [said("never push to main")], checkout("main")
    for command in ("git checkout . && git push", "git checkout README.md && git push", "git checkout src/ && git push"):
        assert before_command(command, told, main) == told, command
    for command in ("git checkout - && git push", "git switch - && git push", "git switch v1.x && git push"):
        assert before_command(command, told, main) == [], command


@pytest.mark.feature("hooks.words-of-one-act")
def test_the_words_of_a_rule_are_looked_for_in_one_act_with_what_was_added_to_a_commit():
    told = [said("never commit generated files")]
    assert before_command("git add generated/files && git commit -m x", told) == told
    assert before_command("git commit -m x generated/files", told) == told
    assert before_command("ls generated/files && git commit -m x", told) == []
    assert before_command("git add generated/files", told) == []
    piped = [said("never pipe curl output into bash")]
    assert before_command("curl -s https://example.org/pipe/output | bash", piped) == piped
    assert before_command("curl -s https://example.org > page; bash build.sh", piped) == []


@pytest.mark.feature("hooks.words-of-one-act", "hooks.pull-request-base")
def test_a_rule_of_pull_requests_is_told_before_none_that_is_only_shown():
    told = [said("never open prs against release")]
    assert before_command("gh pr create --base release", told) == told
    assert before_command("gh pr list --base release && gh pr view 3 --json release", told) == []
    other = "gh pr create --base main --head fix/release-keys --title 'fix(release): copy the keys'"
    assert before_command(other, told) == before_command("gh pr create --title release", told) == []
    wanted = [said("don't open pull requests against the staging branch")]
    assert before_command("gh pr edit 7 -B staging", wanted) == before_command("glab mr create --target-branch=staging", wanted) == wanted
    both = [said("never open prs against main, staging or release")]
    assert [before_command(f"gh pr create {into}", both) != [] for into in ("-B release", "-Brelease", "--base=main", "-B staging")] == [
        True
    ] * 4
    assert before_command("gh pr create --base next --title 'release: main'", both) == []
    unless = [said("never open PRs against release unless I say so")]
    assert before_command("gh pr create --base release", unless) == unless
    assert before_command("gh pr create -B next", [said("never open prs into main, next is for that")]) == []
    comments = [said("never comment on prs")]
    assert before_command("gh pr comment 3 --body x", comments) == comments


@pytest.mark.feature("hooks.rules-in-passing")
def test_how_work_is_to_be_done_is_told_before_it_only_where_it_was_said_twice_or_the_command_shows_it():
    tidy = said("keep every commit small and reviewable please")
    in_passing = tidy._replace(structured=json.dumps(tidy.body | {"once": True}))
    assert before_command("git commit -m 'fix: cart'", [tidy]) == [tidy]
    assert before_command("git commit -m 'fix: cart'", [in_passing]) == []
    assert before_command("git commit -m 'fix: cart'", [in_passing._replace(status="accepted")]) != []


@pytest.mark.feature("hooks.only-asks")
def test_commands_that_only_ask_a_package_manager_are_told_nothing():
    told = [said("use poetry, not pip")], [said("we use npm, not pnpm")], [said("use pip, not uv")], [said("use uv instead of poetry")]
    told += ([said("use uv instead of pdm")], [said("use podman, not docker")])
    asks = ("pip list", "pnpm ls", "uv pip list", "poetry show", "pdm list", "docker ps -a")
    asks_too = ("pip --version", "pnpm why left-pad", "uv pip show x", "poetry show --tree", "pdm info", "docker images")
    changes = ("pip install x", "pnpm add x", "uv pip install x", "poetry add x", "pdm install", "docker build .")
    for rules, *commands in zip(told, asks, asks_too, changes, strict=True):
        assert [bool(before_command(c, rules)) for c in commands] == [False, False, True]
    podman, pnpm = [said("use podman, not docker")], [said("use pnpm, not npm")]
    for command in ("docker run -h web image", "docker exec db psql -h localhost", "docker run image --version"):
        assert before_command(command, podman) == podman, command
    for command in ("npm version patch", "npm audit fix", "npm audit --fix", "npm run build -- --help"):
        assert before_command(command, pnpm) == pnpm, command
    assert before_command("npm version; npm audit; npm install --help; npm -h", pnpm) == []


REFUSED = 'could not connect to server: Connection refused on "{}"'


@pytest.mark.feature("hooks.service-port")
def test_what_started_a_service_is_told_for_its_port_alone():
    lesson = [setup(REFUSED.format("localhost:5432"), "docker compose up -d db")]
    for port in ("localhost:5432", "db:5432", "127.0.0.1:5432", "[::1]:5432", "http://api.local:5432/x", "host db, port 5432"):
        assert after_failure("pytest -q", REFUSED.format(port), "/w", lesson) == lesson, port
    for port in ("localhost:6379", "cache:6379", "host cache, port 6379"):
        assert after_failure("pytest -q", REFUSED.format(port), "/w", lesson) == [], port


@pytest.mark.feature("hooks.service-port")
@pytest.mark.parametrize(
    "number",
    [
        "12:54:32",
        "10:5432 UTC",
        "db.py:5432",
        "src/db.ts:5432:7",
        "at line:5432",
        "2026-11-30T10:54",
        "lib/main.dart:5432",
        "/w/bin/run:54",
    ],
)
def test_times_of_day_and_numbers_of_lines_are_no_ports(number):
    lesson = [setup("connection refused by localhost:5432, 127.0.0.1:54", "docker compose up -d db")]
    line = f"error at {number} - connection refused by localhost:6379"
    assert after_failure("node app.js", line, "/w", lesson) == []


@pytest.mark.feature("hooks.service-port")
@pytest.mark.parametrize(
    "image",
    ["postgres:15", "`node:20`", "image 'node:22-alpine'", "Unable to find image 'app:2024'", "pulling app:2024", "manifest for app:2024"],
)
def test_versions_of_images_are_no_ports(image):
    lesson = [setup(f"{image}: connection refused by localhost:5432", "docker compose up -d db")]
    assert after_failure("node app.js", f"{image}: connection refused by localhost:6379", "/w", lesson) == []
    assert after_failure("node app.js", f"{image}: connection refused by localhost:5432", "/w", lesson) == lesson


@pytest.mark.feature("hooks.service-port")
def test_short_ports_of_named_machines_are_ports():
    lesson = [setup("connection refused by web:80", "docker compose up -d web")]
    assert after_failure("curl -f http://web", "connection refused by web:80", "/w", lesson) == lesson
    assert after_failure("curl -f http://web", "connection refused by web:8080", "/w", lesson) == []


@pytest.mark.feature("hooks.service-port")
@pytest.mark.parametrize(
    "said_so",
    [
        "connection refused by kdc:88",
        "connection refused: web:81 refused",
        "connection refused by 127.0.0.1:5432-ab",
        "connection refused by kafka:9092-ssl",
        "connection refused: image proxy imgproxy:8080 refused",
        "connection refused: cannot load images from minio:9000",
    ],
)
def test_a_machine_that_is_called_names_its_port_whatever_stands_around_it(said_so):
    lesson = [setup(said_so, "docker compose up -d db")]
    port = next(number for number in ("88", "81", "5432", "9092", "8080", "9000") if f":{number}" in said_so)
    assert after_failure("curl -f http://web", f"connection refused by localhost:{port}", "/w", lesson) == lesson
    assert after_failure("curl -f http://web", said_so, "/w", lesson) == lesson
    assert after_failure("curl -f http://web", "connection refused by localhost:1234", "/w", lesson) == []


@pytest.mark.feature("hooks.service-port")
def test_a_long_line_of_images_is_read_at_once():
    lesson = [setup("connection refused by db:5432", "docker compose up -d db")]
    start = time.process_time()
    after_failure("node app.js", "connection refused " + "image a:1234 " * 4000, "/w", lesson)
    assert time.process_time() - start < 5


@pytest.mark.feature("rules.moved")
@pytest.mark.parametrize(
    ("text", "want", "avoid"),
    [
        ("we moved from poetry to uv", "uv", "poetry"),
        ("We've migrated from npm to pnpm last week.", "pnpm", "npm"),
        ("this project has switched from jest to vitest", "vitest", "jest"),
        ("everything was moved from docker to podman", "podman", "docker"),
        ("we moved to uv", "uv", ""),
    ],
)
def test_a_move_from_one_program_to_another_is_a_rule(text, want, avoid):
    meant = rule(text)
    assert (set(meant.want), set(meant.avoid)) == ({want}, {avoid} - {""})
    assert contradict(rule("we use poetry here"), rule("we moved from poetry to uv"))


@pytest.mark.feature("rules.moved")
@pytest.mark.parametrize(
    "text", ["we moved from Berlin to Munich", "we moved from poetry to prose", "we moved to Berlin", "we moved the button to the left"]
)
def test_another_move_is_none(text):
    assert rule(text) is None or not rule(text).of_work


@pytest.mark.feature("rules.unspaced")
@pytest.mark.parametrize(
    "alike",
    [
        ("커밋하기 전에 항상 테스트를 실행하세요", "커밋 전에는 항상 테스트를 실행해줘"),
        ("main 브랜치에 절대 푸시하지 마", "절대 main 브랜치로 푸시하지 마세요"),
        ("提交前必须先运行测试", "提交之前必须先运行测试"),
        ("不要直接推送到主分支", "永远不要直接推送到主分支"),
        ("コミットの前に必ずテストを実行してください", "コミット前に必ずテストを実行すること"),
    ],
)
def test_rules_in_scripts_without_blanks_or_with_particles_are_one_in_other_endings_and_no_other(alike):
    one, other = map(rule, alike)
    assert same(one, other)
    for text in ("커밋 메시지는 항상 한국어로 작성하세요", "コメントは必ず日本語で書いてください", "提交信息必须使用中文"):
        assert not same(one, rule(text))


ACTS = {
    "merge": ("git merge fix", "gh pr merge 9 --squash", "gh -R a/b pr merge 9", "npm test && git merge --no-ff fix", "glab mr merge 4"),
    "push": ("git push", "git push origin fix", "git -C sub push -u origin fix", "jj git push"),
    "commit": ("git commit -m x", "git add -A && git commit --amend"),
    "deploy": ("vercel --prod", "kubectl apply -f x.yml", "npm run deploy", "./deploy.sh", "terraform apply"),
    "delete": ("rm src/a.py", "rm -rf src", "git rm a.py", "git branch -d fix", "git push --delete origin fix", "kubectl delete pod x"),
    "publish": ("npm publish", "cargo publish", "uv publish", "twine upload dist/*", "docker push x"),
    "release": ("gh release create v1", "make release"),
}
NO_ACT = (
    "git status", "git log --merges", "git merge-base a b", "git merge --abort", "git branch --merged", "git checkout -b merge-fix",
    "gh pr view 3", "gh pr checks 3", "git push --dry-run", "git pull", "npm publish --dry-run", "cat deploy.sh", "rm -rf node_modules",
    "rm -rf build /tmp/x", "git rm --cached a.py", "rg 'git push' docs", "git commit --dry-run", "pytest -k merge", "ls releases",
)  # fmt: skip
ASKED_FIRST = (
    "never {} without asking",
    "don't {} without asking me first",
    "do not ever {} anything without my explicit approval",
    "don't {} unless I tell you to",
    "never {} until I approve",
    "always ask me before you {}",
)


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize("wording", ASKED_FIRST)
@pytest.mark.parametrize("act", ACTS)
def test_who_wants_to_be_asked_first_is_heard_before_that_act_and_at_no_other(act, wording):
    told = [said(wording.format(act))]
    assert [c for c in ACTS[act] if not before_command(c, told)] == []
    others = {c for name, commands in ACTS.items() if name != act for c in commands if act != "push" or "git push" not in c}
    assert [c for c in (*NO_ACT, *sorted(others - set(ACTS[act]))) if before_command(c, told)] == []


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("text", "told", "quiet"),
    [
        ("never force push without asking", "git push -f", "git push"),
        ("don't squash-merge without asking", "gh pr merge 3 --squash", "gh pr merge 3"),
        ("never delete files without asking", "rm src/a.py", "git branch -D fix"),
        ("never delete a branch without asking", "git branch -D fix", "rm src/a.py"),
        ("never merge or deploy without asking", "vercel deploy", "git push"),
        ("never push to main without asking", "git push origin main", "git push origin fix"),
        ("don't squash-merge without asking", "gh pr merge 3 -s", "git merge -s ours fix"),
        ("Don't merge or force push without asking", "gh pr merge 5", "git push"),
        ("Never merge or push to main without asking", "gh pr merge 5", "git push origin fix"),
        ("Never merge or push to main without asking", "git push origin main", "git push origin fix"),
        ("don't deploy or push to main without asking", "npm run deploy", "git push origin fix"),
        ("never push to main or merge without asking", "gh pr merge 5", "git push origin fix"),
        ("never push to main or merge without asking", "git push origin main", "git commit -m x"),
        ("never push, merge, or commit to main without asking", "gh pr merge 5", "git commit -m x"),
        ("never push to release or merge without asking", "gh pr merge 5", "gh release create v1"),
        ("never delete my files or push without asking", "git push", "git branch -D fix"),
        ("never delete my files or push without asking", "rm src/a.py", "git branch -D fix"),
        ("never commit secrets or deploy without asking", "npm run deploy", "git commit -m x"),
        ("never push --force without asking", "git push --force", "git push"),
        ("never push --force without asking", "git push -f origin main", "git push origin main"),
        ("never merge with --squash without asking", "gh pr merge 3 --squash", "gh pr merge 3"),
        ("Never commit secrets without asking", "git add secrets.yml && git commit -m x", "git commit -m 'hide the secrets'"),
        ("Ask me before you commit the lockfile", "git add app.lockfile && git commit -m x", "git commit -am x"),
        ("never remove features without asking", "rm -rf src/features", "rm old.py"),
    ],
)
def test_what_narrows_a_wish_to_be_asked_narrows_where_it_is_told(text, told, quiet):
    assert before_command(told, [said(text)]), text
    assert before_command(quiet, [said(text)]) == [], text


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Never push or force-push without asking", "git push origin fix"),
        ("don't commit or force-push without asking", "git commit -m x"),
        ("never squash or merge without asking", "gh pr merge 5"),
        ("Never push or release without asking", "git push origin fix"),
        ("don\u2019t push without asking", "git push"),
        ("never forget to ask before pushing", "git push"),
        ("always ask me before committing, so I can review", "git commit -m x"),
        ("never delete anything without asking", "ls | xargs rm -f"),
        ("never delete anything without asking", "rmdir a"),
        ("never delete anything without asking", "docker rm c"),
        ("never delete anything without asking", "git stash drop"),
        ("never delete anything without asking", "git tag -d v1"),
        ("never delete anything without asking", "gh release delete v1"),
        ("never push without asking", "git subtree push --prefix a origin x"),
        ("never push without asking", "ssh build 'git push'"),
        ("never publish without asking", "docker compose push"),
        ("never deploy without asking", "mvn deploy"),
        ("Never push tags without asking", "git push --tags"),
        ("Ask me before publishing the npm package", "npm publish"),
        ("ask me before you commit, push or open a PR", "git commit -m x"),
        ("ask me before you commit, push or open a PR", "git push"),
        ("Ask before you commit or push or create a PR", "git commit -m x"),
        ("Ask before you commit or push or create a PR", "git push"),
        ("Never merge a pull request that has failing checks without asking", "gh pr merge 3"),
        ("never deploy the API without asking", "fly deploy"),
        ("never deploy the backend without asking", "fly deploy"),
        ("never merge feature branches without asking me", "git merge feature/x"),
        ("ask me before pushing the fix", "git push"),
        ("Do not commit these files without asking", "git commit -m x"),
        ("Ask me before you commit or rebase anything", "git commit -m x"),
        ("never commit changes you are not sure about without asking", "git commit -m x"),
        ("never commit big refactors without asking", "git commit -m x"),
        ("never delete users without asking", "rm -rf users"),
        ("never force-delete without asking", "rm -rf src"),
        ("never push, especially not with --force, without asking", "git push"),
    ],
)
def test_each_act_of_a_wish_to_be_asked_is_heard_however_it_is_done(text, told):
    assert rule(text) is not None or "forget" in text
    lesson = Memory("m-rule", "user_preference", text, structured="{}", confidence=0.8, support=2)
    assert before_command(told, [lesson]) == [lesson]


@pytest.mark.feature("hooks.asked-first")
def test_a_wish_to_be_asked_is_told_at_the_prompt_where_nothing_speaks_at_the_act():
    rules = [said("never push without asking")]
    assert at_prompt("push the branch", rules) == []
    assert at_prompt("push the branch", rules, heard_at_act=False) == rules
    secrets = [said("never commit secrets without asking")]
    assert at_prompt("commit the work", secrets) == secrets, "the commit may well not name them"


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("text", "quiet"),
    [
        ("Don't ask me before you push, just push", "git push"),
        ("don't ask before committing", "git commit -m x"),
        ("do not ask for confirmation before deploying", "vercel deploy"),
        ("you don't need to ask before pushing", "git push"),
        ("Never commit secrets without asking", "git commit -m x"),
        ("never push credentials without asking", "git push"),
        ("never commit files that contain secrets without asking", "git commit -m x"),
        ("do not remove comments unless asked", "rm old.py"),
        ("never remove features without asking", "git branch -d fix"),
        ("never deploy without asking", "kubectl rollout status deploy/x"),
        ("never push without asking", "git push -n"),
    ],
)
def test_the_opposite_wish_another_object_and_what_only_looks_are_told_nothing(text, quiet):
    assert before_command(quiet, [Memory("m-rule", "user_preference", text, structured="{}", confidence=0.8, support=2)]) == []


@pytest.mark.feature("hooks.after-failure")
def test_an_error_that_ends_with_the_folder_it_was_met_in_is_the_same_in_another_folder():
    body = {"error": "fatal: 'main' is already used by worktree", "signature": "fatal main is already used by worktree"}
    body |= {"subject": "git checkout", "warning": True}
    lesson = Memory("m", "failure_trigger", "`git checkout main` fails in a worktree", structured=json.dumps(body), confidence=0.6)
    for folder in ("/w/app", "/Users/sam/src/app-2"):
        assert after_failure("git checkout main", f"fatal: 'main' is already used by worktree at '{folder}'", "/x", [lesson]) == [lesson]
    assert after_failure("git checkout dev", "fatal: 'dev' is already used by worktree at '/w/app'", "/x", [lesson]) == []


@pytest.mark.feature("hooks.before-command")
def test_the_option_with_which_the_very_call_of_a_folder_passed_is_told_of_one_session():
    body = {"commands": ["go test ./integration/... -tags=integration"], "once": True}
    text = "in `integration`: run the tests with `go test ./integration/... -tags=integration`"
    lesson = Memory("m", "repo_convention", text, structured=json.dumps(body), confidence=0.4)
    assert before_command("go test ./integration/...", [lesson]) == [lesson]
    for quiet in ("go test ./integration/... -tags=integration -v", "go test ./...", "go vet ./integration/..."):
        assert before_command(quiet, [lesson]) == [], quiet


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("text", "told", "quiet"),
    [
        ("never use git push --force without asking", ("git push --force", "git push -f origin x"), ("git push", "git commit -m x")),
        ("don't run `gh pr merge` without asking me", ("gh pr merge 3",), ("gh pr create",)),
        ("never delete config.prod.yml without asking", ("rm config.prod.yml",), ("rm config.dev.yml", "rm prod.yml")),
        ("ask me before you edit config/routes.rb or push", ("git push", "sed -i s/a/b/ config/routes.rb"), ("sed -i s/a/b/ routes.rb",)),
        ("don't change the API without asking", (), ("sed -i s/a/b/ api.py", "rm api")),
    ],
)
def test_an_act_named_by_its_command_or_of_one_file_is_asked_about_as_any(text, told, quiet):
    rules = [said(text)]
    assert [c for c in told if not before_command(c, rules, "/w")] == []
    assert [c for c in quiet if before_command(c, rules, "/w")] == []


@pytest.mark.feature("hooks.before-command")
def test_a_file_or_folder_that_is_not_to_be_touched_is_told_before_what_changes_it():
    for text, told, quiet in (
        ("never edit files in dist/", "sed -i s/a/b/ dist/app.js", "sed -i s/a/b/ src/app.js"),
        ("never touch schema.lock.json", "rm schema.lock.json", "cat schema.lock.json"),
        ("never touch schema.lock.json", "mv schema.lock.json x", "rm schema.json"),
        ("don't touch schema.sql when you fix a bug", "", "rm schema.sql"),
    ):
        assert bool(before_command(told, [said(text)], "/w")) == bool(told), text
        assert before_command(quiet, [said(text)], "/w") == [], text


@pytest.mark.feature("hooks.before-change")
@pytest.mark.parametrize(
    ("text", "told", "quiet"),
    [
        ("never edit files in dist/", "/w/src/app/dist/app.js", "/w/src/app/lib/app.js"),
        ("never touch schema.lock.json", "/w/src/app/db/schema.lock.json", "/w/src/app/db/schema.json"),
        ("never edit files in src/", "/w/src/app/src/a.py", "/w/src/app/a.py"),
        ("don't edit the tests in spec/", "/w/src/app/spec/test_a.py", "/w/src/app/spec/helper.py"),
        ("never delete schema.sql", "", "/w/src/app/schema.sql"),
        ("don't touch schema.sql when you fix a bug", "", "/w/src/app/schema.sql"),
        ("use pnpm, not npm", "", "/w/src/app/npm.md"),
    ],
)
def test_a_rule_of_a_file_is_told_before_a_tool_writes_it_and_what_the_project_itself_lies_in_is_no_folder_of_the_rule(text, told, quiet):
    rules, cwd = [said(text)], "/w/src/app"
    assert (before_change(told, rules, cwd) == rules) == bool(told)
    assert before_change(quiet, rules, cwd) == []
    assert before_command("touch a.txt", rules, cwd) == []


@pytest.mark.feature("hooks.rule-of-folder")
@pytest.mark.parametrize(
    ("text", "command", "cwd", "told"),
    [
        ("never edit files in dist/", "echo x > app.js", "/w/app/dist", True),
        ("never edit files in dist/", "sed -i s/a/b/ app.js", "/w/app/dist", True),
        ("never edit files in dist/", "echo x > ../src/app.js", "/w/app/dist", False),
        ("never delete files in migrations/", "rm 0001.sql", "/w/app/db/migrations", True),
        ("don't touch db/schema.sql", "echo x > schema.sql", "/w/app/db", True),
        ("don't touch db/schema.sql", "echo x > schema.sql", "/w/app/web", False),
        ("ask me before you delete files in data/", "rm a.csv", "/w/app/data", True),
        ("never edit files in .claude/", "echo x > src/a.py", "/w/app/.claude/worktrees/feat", False),
        ("never edit files in .claude/", "echo x > settings.json", "/w/app/.claude", True),
        ("never edit files in w/", "echo x > a.py", "/w/app", False),
        ("never edit files in dist/", "echo x > /tmp/dist/app.js", "/w/app", False),
        ("never edit files in dist/", "cd /tmp && echo x > dist/app.js", "/w/app", False),
        ("never edit files in dist/", "echo x > /w/app/dist/app.js", "/tmp", True),
        ("never edit files in dist/", "echo x > dist/app.js", "/srv/app-2", True),
        ("never move files in dist/", "mv dist/app.js /tmp/dist/app.js", "/w/app", True),
        ("never move files in dist/", "mv /tmp/dist/app.js app.js", "/w/app", False),
        ("ask me before you delete files in data/", "rm /tmp/data/a.csv", "/w/app", False),
    ],
)
def test_a_rule_of_a_folder_is_told_before_a_command_inside_of_it(text, command, cwd, told):
    rules, roots = [said(text)], ("/w/app/.claude/worktrees/feat", "/w/app")
    assert before_command(command, rules, cwd, roots) == rules * told


@pytest.mark.feature("hooks.rule-limits")
@pytest.mark.parametrize(
    ("text", "told", "quiet"),
    [
        ("never edit package.json by hand, edit pnpm-workspace.yaml", "rm package.json", "sed -i s/a/b/ pnpm-workspace.yaml"),
        ("don't touch a.json, b.json or c.json", "rm c.json", "rm d.json"),
        ("never rename files in api/", "mv api/a.py api/b.py", "mv a.py api/b.py"),
        ("don't edit the generated code in gen/, but edit src/a.tpl", "sed -i s/a/b/ gen/a.py", "sed -i s/a/b/ src/a.tpl"),
        ("never change anything but src/", "", "sed -i s/a/b/ src/a.py"),
        ("always rebase on main before you push", "git push origin fix", "git rebase main && git push origin fix"),
        ("always run make lint before you push to the repo", "git push origin fix", "make lint && git push origin fix"),
        ("never delete data/ without asking", "find data/ -name x | xargs rm", "ls data/; rm x.txt"),
    ],
)
def test_of_the_files_and_branches_of_a_sentence_those_count_that_its_verb_is_about(text, told, quiet):
    assert bool(before_command(told, [said(text)], "/w")) == bool(told)
    assert before_command(quiet, [said(text)], "/w") == []


@pytest.mark.feature("mining.said-rules")
def test_a_program_that_is_not_wanted_for_a_part_of_the_work_is_replaced_nowhere():
    for text in ("don't use npm for docs, use pnpm", "never use npm in the docs folder, use pnpm instead"):
        assert not replaced(rule(text)), text
    for text in ("don't use npm in our repo, use pnpm", "don't use npm for installing, use pnpm", "don't use npm, use pnpm"):
        assert "npm" in replaced(rule(text)), text
