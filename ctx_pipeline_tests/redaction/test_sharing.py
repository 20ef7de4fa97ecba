"""What is private in a session goes before it is shared; what is not stays as it is."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.redaction.sharing import Sharing, in_words

ROOT = "/Users/sam.doe/src/shop"


@pytest.mark.feature("cli.share")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"read {ROOT}/app/main.py:12", "read app/main.py:12"),
        (f"cd {ROOT} && ls", "cd . && ls"),
        (f'{{"cwd":"{ROOT}","cmd":"cd {ROOT}\\nls"}}', '{"cwd":".","cmd":"cd .\\nls"}'),
        (f"{ROOT}-old/x.py", "~/…/x.py"),
        ("/Users/sam.doe/src/acme/plan.md", "~/…/plan.md"),
        ("/home/sam.doe/.claude/settings.json", "~/.claude/settings.json"),
        (r"C:\Users\sam.doe\acme\plan.md", "~/…/plan.md"),
        (r"C:\\Users\\sam.doe\\acme\\plan.md\nnext", r"~/…/plan.md\nnext"),
        ("~/.claude/projects/-Users-sam-doe-src-shop/memory", "~/.claude/projects/[folder]/memory"),
        ("/Volumes/Backup/acme/a.txt and /mnt/acme/b.txt", "[folder]/a.txt and [folder]/b.txt"),
        ("Author: Sam Doe <sam@acme.io>", "Author: [person] <[email]>"),
        ("pushed by Sam.Doe to github.com/sam.doe/shop", "pushed by user to github.com/user/shop"),
        ("npm@latest installs, sam@latest-box ~ %", "npm@latest installs, user@[host] ~ %"),
        ("sam@buildbox:~$ ssh deploy@prod-7 uptime", "user@[host]:~$ ssh user@[host] uptime"),
        (
            '[{"login":"octo-sam","id":7}] @octo-sam https://github.com/octo-sam/x',
            '[{"login":"user","id":7}] @user https://github.com/user/x',
        ),
        ('{"out":"{\\"login\\": \\"octo-sam\\"}"} octo-sam', '{"out":"{\\"login\\": \\"user\\"}"} user'),
        (
            "To https://github.com/marla/shop.git\n   1a2b..3c4d  main -> main\nsee marla/shop",
            "To https://github.com/user/shop.git\n   1a2b..3c4d  main -> main\nsee user/shop",
        ),
        ("origin\tgit@github.com:acme-inc/shop.git (fetch)\nacme-inc/shop", "origin\tgit@github.com:user/shop.git (fetch)\nuser/shop"),
        ("Logged in to github.com account octo-sam (keyring) octo-sam/y", "Logged in to github.com account user (keyring) user/y"),
        ("cp ~/src/shop/app/main.py ~/src/acme/plan.md", "cp app/main.py ~/…/plan.md"),
        ("~/Projects  $ ls $HOME/src/acme ${HOME}/acme", "~/…  $ ls $HOME/…/acme ${HOME}/…"),
        (r"%USERPROFILE%\acme\plan.md", "%USERPROFILE%/…/plan.md"),
        (r'{"cmd":"ls\n~/src/acme/x\n/Users/sam.doe/src/acme/y\nsam.doe"}', r'{"cmd":"ls\n~/…/x\n~/…/y\nuser"}'),
        ("\u241b[36m/Users/sam.doe/src/acme/y", "\u241b[36m~/…/y"),
        (r"/Users/sam.doe/My\ Plans/acme/x.md", "~/…/x.md"),
        ("vscode://file/Users/sam.doe/acme/x.md", "vscode://~/…/x.md"),
        ("mailto:sam@acme.io", "mailto:[email]"),
        ('[{"body":"run","user":"octo-sam"}] @octo-sam', '[{"body":"run","user":"user"}] @user'),
        ('"author":"samdoe" and samdoe', '"author":"user" and user'),
        ("author:\tocto-sam\nassociation: member, octo-sam", "author:\tuser\nassociation: member, user"),
        ("https://github.com/sam-doe-42/shop by sam-doe-42", "https://github.com/user/shop by user"),
        ("7+octo-sam@users.noreply.github.com octo-sam", "[email] user"),
        ('"login":"octo-sam","name":"Jo Doe"} Jo Doe', '"login":"user","name":"[person]"} [person]'),
        ('{"assignee":"Jo Doe"} and git -c user.name="Max Moe"', '{"assignee":"[person]"} and git -c user.name="[person]"'),
        ("-rw-r--r--  1 jo-moe  staff  120 Jul  1 a.txt", "-rw-r--r--  1 user  staff  120 Jul  1 a.txt"),
        ("/private/var/folders/5g/w6qvhr890pxfz9sg1l0d5c0r0000gn/T/tmp.V4/a.zip: no", "/tmp/tmp.V4/a.zip: no"),
        ("drwxrwxr-x@ 12 jomoe jomoe 4096 Jul  1 src", "drwxrwxr-x@ 12 user user 4096 Jul  1 src"),
        ("reviewers:\tjo-moe (Requested), max7 (Approved)\nby max7", "reviewers:\tuser (Requested), user (Approved)\nby user"),
        (r'{"out":"assignees:\tjo-moe\nlabels:\tbug"} jo-moe', r'{"out":"assignees:\tuser\nlabels:\tbug"} user'),
        ("On branch maria/fix-x, origin/maria/fix-x", "On branch user/fix-x, origin/user/fix-x"),
        ("git checkout -b maria/fix-x && maria/other", "git checkout -b user/fix-x && maria/other"),
        ('{"headRefName":"maria/fix/x"} maria/fix/x, maria', '{"headRefName":"user/fix/x"} user/fix/x, maria'),
        (
            'authors = [{name = "Maria Lopez"}, {name = "Jo Doe", email = "jo@acme.io"}]',
            'authors = [{name = "[person]"}, {name = "[person]", email = "[email]"}]',
        ),
        ('"author": {\n  "name": "Maria Lopez"\n}', '"author": {\n  "name": "[person]"\n}'),
        ("Author: Maria Lopez <m@acme.io>\nMaria says so; ask Maria.", "Author: [person] <[email]>\n[person] says so; ask [person]."),
        (
            "Author: Jo Doe-Moe <j@acme.io>\nproject: jodoe-moe.me-next, https://www.jodoe-moe.me/x, Jo_Doe-Moe jo.doe-moe, jodoe",
            "Author: [person] <[email]>\nproject: user.me-next, https://www.user.me/x, user user, jodoe",
        ),
        ("by @jo-moe, github.com/jo-moe/x; Jo Moe <jo@acme.io>", "by @user, github.com/user/x; [person] <[email]>"),
        (
            r"sam.doe_tar sam.doe-tar/x.rs my_sam.doe libsam.doe_tar-c2.rlib target\nlibsam.doe-x gelibsam.doe_x sam.does",
            r"user_tar user-tar/x.rs my_user libuser_tar-c2.rlib target\nlibuser-x gelibsam.doe_x sam.does",
        ),
        ('{"login":"jo","id":7} @jo, github.com/jo/x', '{"login":"user","id":7} @user, github.com/user/x'),
        ("Sams-MacBook-Pro.local, nas.lan, 192.168.1.20, thishost", "[host], [host], [host], [host]"),
    ],
)
def test_what_is_private_is_replaced(text: str, said: str):
    sharing = Sharing([ROOT], users=["sam.doe"], hosts=["thishost"])

    assert sharing(text) == said
    assert sum(sharing.counts.values()) > 0


@pytest.mark.feature("cli.share")
@pytest.mark.parametrize(
    "text",
    [
        "/var/folders/readme.md, /var/folders/5g/x, /usr/bin/env python, /etc/hosts, /tmp/x/y.log, /opt/homebrew/bin",
        "https://example.com/home/page and app/routes/home/index.ts",
        "git@github.com:acme/shop.git and npm i @types/node@20.1.0",
        "noreply@anthropic.com, sam@example.com, test@test.com",
        '{"login":"dependabot","name":"octo-sam"}, "user": "postgres", an account setup (see below)',
        "~/.cargo/bin/rg, ~/go/bin/air, ~/Downloads, $HOME/bin and ~/.claude/settings.json",
        'import { user } from "~/lib/user"; await import("~/lib/session")',
        "git show HEAD~/x, a ~\\n b =~ \\d, and https://github.com/samber/cc-skills-golang",
        '"user.name", "Test User", @types/node, "Co-Authored-By: Claude Opus 4.6 <noreply@anthropic.com>"',
        ".claude/settings.local.json, .env.local, 127.0.0.1, 10.2.1",
        "drwxr-xr-x 2 root root 4096 Jul 1 x, -rw-r--r-- 1 www-data www-data 3 y, mode -rw-r--r-- of 3 files",
        "it will run on a mark of 3.5, REDACTED by hand",
        "On branch feature/x, origin/fix/y, origin/shop/sessions, git checkout app/models.py, * app/views",
        'authors = [{name = "Acme Inc"}], "author": {"name": "Shop Team"}, "name": "Jo Doe"',
        '"go": 1, let jo = go(js), to be or do',
    ],
)
def test_what_tells_nobody_stays(text: str):
    sharing = Sharing([ROOT], users=["will", "mark", "user", "root"], branches=["shop"])

    assert sharing(text) == text
    assert in_words(sharing.counts) == "nothing"


@pytest.mark.feature("cli.share")
def test_a_name_told_by_one_text_goes_from_the_others_and_counts_are_said():
    sharing = Sharing([ROOT])
    record = {"a": "thanks alisha", "b": ["/home/alisha/x", {"c": "key [REDACTED:aws-key], alisha@acme.io"}], "n": 1}
    sharing.read(json.dumps(record))

    assert sharing.values(record) == {"a": "thanks user", "b": ["~/…", {"c": "key [REDACTED:aws-key], [email]"}], "n": 1}
    assert in_words(sharing.counts) == "1 secret, 1 home folder, 1 mail address, 1 user name"


@pytest.mark.feature("cli.share")
def test_a_given_name_goes_as_a_word_and_stays_in_code_and_paths():
    sharing = Sharing([ROOT])

    said = sharing("Co-Authored-By: Ada Moe <ada@acme.io>\nfrom Ada import x; lib/Ada.py Ada.run() Ada(1) and Ada agrees")
    sharing("Agent Moe <agent@acme.io>")
    assert sharing("### Tool call Agent") == "### Tool call Agent"

    assert said == "Co-Authored-By: [person] <[email]>\nfrom [person] import x; lib/Ada.py Ada.run() Ada(1) and [person] agrees"


@pytest.mark.feature("cli.share")
def test_the_person_in_whose_home_the_session_worked_is_not_named_though_no_path_of_it_is_printed():
    sharing = Sharing(["/Users/gtrrz-victor/wks/cli"])

    assert sharing("on branch gtrrz-victor/missing-telemetry") == "on branch user/missing-telemetry"


@pytest.mark.feature("cli.share-common-words")
def test_a_login_that_is_a_common_word_goes_where_it_is_a_login_and_stays_as_a_word():
    sharing = Sharing(["/Users/files/src/shop"], users=["files", "changed"])

    words = "10 files changed, 3 insertions; src/files/a.py, --changed, files=3, nothing was changed, getfiles() and git diff --files"
    assert sharing(words) == words
    assert in_words(sharing.counts) == "nothing"
    assert sharing("/Users/files/x/a.md, /home/changed/b.md") == "~/…/a.md, ~/…"
    assert sharing("ssh changed@buildbox ls and files@buildbox:~$") == "ssh user@[host] ls and user@[host]:~$"
    assert sharing('https://github.com/files/shop, thanks @changed, {"login":"files"}') == (
        'https://github.com/user/shop, thanks @user, {"login":"user"}'
    )
    assert sharing("drwxr-xr-x 12 files staff 4096 Jul  1 src") == "drwxr-xr-x 12 user staff 4096 Jul  1 src"


@pytest.mark.feature("cli.share-common-words")
@pytest.mark.parametrize("login", ["files", "zbigkow"])
@pytest.mark.parametrize(
    "told",
    [
        "origin\tgit@git.corp.io:{}/shop.git (fetch)",
        "To https://git.corp.io/{}/shop.git",
        "git clone https://git.corp.io/{}/shop.git",
        "\u2713 Logged in to github.com account {} (keyring)",
        "author:\t{}",
        "title:\tx\nreviewers:\tjo-moe (Approved), {} (Approved)",
        "assignees:\t{}",
        r'{{"out":"x\nauthor:\t{}\nlabels:"}}',
        '"user_name": "{}"',
        '{{"author_name":"{}"}}',
        '{{"login" : "{}"}}',
        r'{{"out":"{{\"login\": \"{}\"}}"}}',
        '{{"nameWithOwner":"{}/shop"}}',
        "https://api.github.com/users/{}",
        "https://api.github.com/repos/{}/shop",
        "gh api repos/{}/shop",
        "https://{}.github.io/shop",
        "gh pr list -R {}/shop",
        "cd x && glab mr view 7 \\\n  --web -R {}/shop",
        "-R {}/shop",
        f"gh pr create --body '{'long words ' * 20}' -R {{}}/shop",
        "gh pr create --body 'a; b' -R {}/shop",
        "gh pr create --body \"$(cat <<'EOF'\nWhat: x\nEOF\n)\" -R {}/shop",
        "run `gh pr view` with `-R {}/shop`",
        "gh search code grep -R {}/shop",
        '["gh","pr","view","12","-R","{}/shop"]',
        'GH_REPO="{}/shop" gh pr list',
        "  remotes/{}/main",
        "git push origin refs/heads/{}/fix",
        "fork/{}/shop",
        "docker push ghcr/{}/shop",
        "uid=501({}) gid=20(staff)",
        "USER={}",
        "LOGNAME={}",
        "sudo -u {} ls",
        "~{}/x",
        "/var/mail/{}",
        "@{} said so",
        "ssh {}@10.0.0.3",
        "to {}@buildbox",
        "git clone git@github.com:{}-acme/shop",
        "https://github.com/acme-{}/shop",
    ],
)
def test_a_login_is_replaced_wherever_it_is_told_as_one_though_it_is_a_common_word(told: str, login: str):
    said = Sharing([f"/Users/{login}/src/shop"])(told.format(login))

    assert login not in said
    assert "user" in said
    assert "acme" not in said


@pytest.mark.feature("cli.share-common-words")
@pytest.mark.parametrize(
    "told",
    [
        *(
            "/data/{}/x",
            "home/{}/x",
            "Users/{}/src",
            "users/{}",
            "repos/{}/shop",
            "[folder]/{}",
            "gitea.corp.io/{}/shop",
            "@{}",
            "u/{} said",
        ),
        *(
            "ls mnt/users/{}/src",
            "mnt/{}/src",
            "cd Users && ls ./{}/src",
            "remotes/{}/main -> x",
            "remotes/origin/{}/x",
            "forks: fork/{}/x",
        ),
        *("svn co repo/branches/{}/fix", "git push origin refs/heads/{}/fix", "docker push ghcr/{}/shop", "gh api users/{}/repos"),
    ],
)
def test_a_word_of_english_is_replaced_where_a_path_is_of_a_machine_or_a_host(told: str):
    assert Sharing(["/Users/mark/src/shop"])(told.format("mark")) == told.format("user")


@pytest.mark.feature("cli.share-common-words")
@pytest.mark.parametrize("login", ["mark", "files"])
@pytest.mark.parametrize(
    "text",
    [
        "10 {} changed; src/{}/a.py, src/{}/, ./{}.py, ls -R {}/shop, cp -R {}/a b, rsync -R {}/a h, api/{}/x, --{}, {}=3, a~{}",
        'ls -la -R {}/shop, ctags -R {}/lib; gh pr list; cp -p -R {}/a b, ./docs/{}/x.md, {{"path":"src/{}"}}, a/src/{}.py b/src/{}.py',
        'npm i {}@latest {}@1.2, {{"name":"{}","path":"{}"}}, {}.length, my-{}-list, the {} of an account {} here',
    ],
)
def test_a_common_word_stays_where_no_login_is_told(text: str, login: str):
    words = text.replace("{}", login).replace("{{", "{").replace("}}", "}")

    assert Sharing([f"/Users/{login}/src/shop"])(words) == words
