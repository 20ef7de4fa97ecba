"""The forms of sentences in which people lay down rules of work, in English."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_OPENING_WORD = (
    r"(?:(?:no|nope|ok|okay|alright|yes|yeah|yep|so|well|please|also|and|but|remember(?:\ that)?|again|wait|hey|actually|instead|then"
    r"|i\ think|i\ mean|as\ i\ said|like\ i\ said|i\ said|i\ told\ you(?:\ to)?|one\ more\ thing"
    r"|from\ now\ on|going\ forward|in\ (?:the\ )?future|(?:for\ )?(?:the\ )?next\ time|for\ (?:the\ )?future(?:\ reference)?|as\ a\ rule|in\ general|generally"
    r"|(?:in|for)\ (?:this|our|the)\ (?:repo|repository|project|codebase)"
    r"|(?:for|in)\ (?:all\ |our\ |new\ |every\ |any\ )*(?:new\ )?(?:[\w-]+\ )?(?:components|modules|files|tests|scripts|services"
    r"|endpoints|functions|classes|code|docs|prs|commits|migrations)"
    r"(?=[,:]?\ (?:use|prefer|always|never|don'?t|avoid|write|only)\b)"
    r"|(?:revert|undo)\ (?:that|this|it)(?=[,:!.])"
    r"|btw|note(?:\ that)?|fyi|to\ be\ clear|important|reminder|(?:new\ )?rule)"
    r"[,:!.\s]+)"
)
"""One word or phrase that opens an order and says nothing of it: "please", "from now on"."""

OPENS = f"{_OPENING_WORD}*"
_ONE_OPENING_WORD = lazy_pattern(rf"(?ix){_OPENING_WORD}")

TO = (
    r"(?:(?:please|you\ should(?:\ be)?|you\ must|(?:you(?:'re|\ are)|we(?:'re|\ are))\ (?:supposed|meant)\ to|(?:you|we)\ (?:need|have|ought)\ to"
    r"|we\ should(?:\ be)?|we\ must|i(?:'d|\ would)?\ (?:want|like|need|prefer)\ you\ to|let'?s|make\ sure\ (?:to|you|that\ you|we)|be\ sure\ to"
    r"|try\ to|just)\s+)*"
)
_WHO = r"(?:we|i|(?:this|the|our)\ (?:repo|project|team|codebase))"
_HERE = (
    r"(?:here|everywhere|in\ (?:this|the|our)\ (?:repo|project|codebase)|from\ now\ on|going\ forward|please|only"
    r"|for\ (?!(?:this|that|now|it)\b)\w+(?:\ \w+){0,2})"
)
_KINDS = (
    r"(?:the\ |our\ |new\ |unit\ |working\ )*(?P<what>tests?|specs?|docs?|documentation|fixtures?|migrations?|scripts?|types|components"
    r"|snapshots)"
)
_NAME = r"[\w.@/-]+"
_PATH = r"`?(?:\.{0,2}/)?(?:[\w.@-]+/)+[\w.@-]*`?"
"""A folder or file with a slash: what lies elsewhere is no place in a project."""

_LIMITS = r"(?:when|whenever|if|for|in|on|at|with|unless|since|because|so|as|instead|to|from|until|while)"
"""Begins what an order is limited to, or its reason."""

_OFTEN = r"(?:before|after|when|whenever|every\ time|each\ time|any\ time)"
_STEP = (
    r"(?:commit|push|merg|rebas|releas|deploy|(?:open|creat|mak|rais|submit)\w*\s+(?:a\ |an\ |the\ |any\ |every\ )?(?:prs?\b|pull)|chang|edit|touch|modify"
    r"|updat|add|writ|refactor|renam|remov|delet|finish|complet|claim|say|hand)\w*"
)
_WHEN = rf"{_OFTEN}\s+(?:(?:you|we|i)\s+)?(?:(?:ever|actually)\s+)?(?:(?:every|each|any|a)\s+)?{_STEP}"
"""A moment of work that comes again: "before you commit", "after every change"."""

_DOES = (
    r"(?:run|use|check|update|regenerate|rebuild|rebase|format|lint|test|write|add|ask|verify|bump|sync|pull|tell|make\ sure|squash|read)"
)
_NOUNS = (
    r"(?:commit\ messages?|commits?|prs?|pull\ requests?|merge\ requests?|branch(?:es|\ names?)?|tests?|test\ names?|(?:unit|integration|e2e)\ tests?|mocks?"
    r"|docs|docstrings?|comments?|migrations?|fixtures?|changelogs?|code|functions?|methods?|classes|components?|modules?|files?|imports?|exports?"
    r"|secrets?|dependencies)"
)
_PLURAL = (
    r"(?:commit\ messages|commits|prs|pull\ requests|merge\ requests|branches|branch\ names|tests|docs|docstrings|comments|migrations"
    r"|error\ messages|log\ messages|imports|exports|changelogs|functions|methods|classes|components|modules|files|diffs|names|lines"
    r"|answers|responses|replies|summaries|explanations)"
)
_MUST = r"(?:should|must|needs?\ to|have\ to|has\ to|(?:is|are)\ to|shall|may|can)"
_RUNNER = (
    r"`?(?:make|just|task|tox|nox|npm|pnpm|yarn|bun|npx|pytest|cargo|go\ test|docker|mise|gradle|mvn|uv|poetry|hatch|rake|bundle|mix|bazel|nix"
    r"|dotnet|swift|\./[\w./-]+|(?:scripts?|bin|tools)/[\w./-]+)\b"
)

_NO_REPORT = r"(?!.*\b(?:red|green|broken|wrong|missing|slow|failing|fails?|stale|empty|off|down)\b)"
"""What a report of the state of something says, and no order."""

_HABITS = (
    r"(?:prefix|suffix|squash(?:-|\ )?(?:merge)?|merge|rebase|name|version|tag|pin|format|lint|sign|document|target|branch\ off|release|deploy|follow|support"
    r"|write|keep|put|store|log|return|throw|import|export|group|sort|wrap|mock|test)"
)
"""What people say that they do in a project, without always: "we squash everything"."""

FORMS = tuple(
    (name, lazy_pattern(rf"(?ix){pattern}$"))
    for name, pattern in (
        (
            "pair",
            (
                rf"{TO}(?:use|using|prefer|run|call|go\ with|stick\ (?:to|with)|switch\ to|write|want|take)\s+(?P<want>[^,;]+?),?\s+"
                r"(?:instead\ of|rather\ than|and\ not|not|over|never)\s+(?:to\ )?(?:use\s+|using\s+)?(?P<avoid>.+?)"
            ),
        ),
        (
            "pair",
            rf"{_WHO}\s+uses?\s+(?P<want>[^,;]+?),?\s+(?:instead\ of|rather\ than|and\ not|not)\s+(?P<avoid>.+?)",
        ),
        (
            "pair",
            (
                r"(?:we|i)(?:'d|\ would)?\s+(?:rather|prefer)\s+(?:to\ )?(?P<want>.+?)\s+(?:rather\ than|than|over|to|instead\ of)\s+"
                r"(?P<avoid>.+?)"
            ),
        ),
        ("pair", rf"(?P<want>{_NAME}(?:\s+{_NAME})?)\s*,?\s+please\s*[,;:]\s*(?:and\s+)?not\s+(?P<avoid>[\w.@/ -]+?)"),
        ("pair", rf"(?:please\s+)?(?P<want>{_NAME})\s*,\s*not\s+(?P<avoid>{_NAME})(?:\s*,?\s*please)?"),
        (
            "pair",
            (
                rf"{TO}(?:don'?t|do\ not|never|stop|no)\s+(?:use\ |using\ )?(?P<avoid>{_NAME})\s*[,;:(-]+\s*(?:but\s+)?(?:please\s+)?"
                rf"use\s+(?:the\ )?(?P<want>{_NAME})\)?"
            ),
        ),
        (
            "pair",
            (
                rf"{TO}(?:don'?t|do\ not|never|stop)\s+(?:use|using)\s+(?P<avoid>{_NAME})\s+for\s+[\w-]+\s*[,;:-]+\s*(?:but\s+)?(?:please\s+)?"
                rf"use\s+(?:the\ )?(?P<want>{_NAME}(?:\ (?!{_LIMITS}\b){_NAME}){{0,2}})"
            ),
        ),
        ("pair", r"not\s+(?P<avoid>.+?),?\s+but\s+(?P<want>.+?)"),
        ("pair", r"(?P<want>tabs|spaces|(?:single|double)\ quotes|rebase|merge|squash|snake_case|camelcase)\s+not\s+(?P<avoid>[\w ]+?)"),
        (
            "pair",
            (
                r".*?\b(?:i'?d\ like|i\ (?:want|would\ like)|we\ want)\s+(?:to\ (?:see|have|use)\s+)?(?P<want>.+?)\s+"
                r"(?:instead\ of|rather\ than)\s+(?P<avoid>.+?)"
            ),
        ),
        (
            "pair",
            (
                r"(?:(?:all\ |our\ )?(?:prs|pull\ requests|merge\ requests)\s+(?:always(?=\s+against\b)|(?:always\s+)?(?:go|target"
                r"|are\ opened))|branch\s+off|base\s+(?:prs|branches))"
                r"\s+(?:against\ |to\ |into\ |on\ |off\ |from\ |of\ )?(?P<want>[^,;]+?),?\s+(?:not|never|instead\ of|rather\ than)\s+(?P<avoid>.+?)"
            ),
        ),
        ("uses", rf"(?:in\ this\ (?:repo|project)[,\s]+)?{_WHO}\s+(?:always\ |only\ )?uses?\s+(?P<want>[^,;]+?)(?:\s+{_HERE})*"),
        (
            "moved",
            rf"(?:{_WHO}|everything|all)(?:'ve|'s|\ have|\ has|\ was|\ were|\ is|\ are)?\s+(?:just\ |now\ |already\ |recently\ )*"
            rf"(?:moved|migrated|switched|changed|converted|ported)\s+(?:everything\s+|this\s+|it\s+|over\s+|away\s+)*"
            rf"from\s+`?(?P<avoid>{_NAME}?)`?\s+(?:over\ )?to\s+`?(?P<want>{_NAME}?)`?(?:\s+(?:{_HERE}|last\ \w+|recently|a\ while\ ago|already|now))*",
        ),
        (
            "moved",
            rf"(?:we|i)(?:'ve|\ have)?\s+(?:just\ |recently\ )?(?:dropped|ditched|abandoned|retired|replaced|swapped(?:\ out)?|got\ rid\ of)\s+"
            rf"`?(?P<avoid>{_NAME}?)`?(?:\s+(?:last|this|a)\s+[\w\s]{{1,20}}?|\s+recently)?,?\s+"
            rf"(?:and\s+|so\s+)?(?:(?:it'?s|it\ is|we(?:'re|\ are)\s+(?:on|using)|we\ (?:now\ )?use|(?:now\ )?use|in\ favou?r\ of|for|with|by)\s+)(?:now\ )?"
            rf"`?(?P<want>{_NAME}?)`?(?:\s+(?:{_HERE}|now))*",
        ),
        (
            "uses",
            rf"{_WHO[:-1]}|everything)\s+(?:is|are)\s+(?:managed|built|set\ up|installed)\s+(?:with|by|via|using)\s+`?"
            r"(?P<want>(?:p?npm|yarn|bun|uv|poetry|pdm|pipenv|conda)\b)`?",
        ),
        (
            "uses",
            r"we(?:(?:'re|\ are)\s+(?:using|on)|(?:'ve|\ have)?\s+(?:now\ )?(?:moved|migrated|switched)\s+(?:over\ )?to)\s+(?P<want>(?:p?npm|yarn|bun|uv|poetry|pdm|ruff|biome|vitest|podman)\b)"
            rf"(?:\s+{_HERE})*(?:,?\s+not\s+(?P<avoid>{_NAME}))?",
        ),
        ("uses", rf"{TO}(?:always\ |only\ )?(?:use|switch\ to|stick\ (?:to|with))\s+(?P<want>{_NAME})(?:\s+{_HERE})*"),
        (
            "uses",
            (
                rf"{TO}(?:always\ |only\ )?(?:use|prefer|write(?!\s+(?:[\w-]+\s+){{0,2}}tests\b))\s+(?!(?:the|a|an|my|your|our|his|its|same|these|those|both|all|some|more|two)\b)"
                rf"(?P<want>{_NAME}\ (?:{_NAME}\ )?{_NAME}s)(?:\s+{_HERE})*"
            ),
        ),
        (
            "place",
            rf"{_KINDS}\s+(?:always\s+)?(?:go(?:es)?|lives?|belongs?|should\ (?:go|live|be))\s+(?:in|into|to|under|on|next\ to|beside)\s+(?:(?:the|a|an|its|their)\ )?"
            rf"(?:(?:sources?|code|files?|modules?|components?)\s*,?\ in\ (?:an?\ |the\ |its\ |their\ )?)?(?P<want>\S+).*",
        ),
        ("place", rf"{TO}(?:(?:put|keep|place)\s+|write\s+(?=[^/]+/)){_KINDS}\s+(?:in|into|to|under|on)\s+(?P<want>\S+).*"),
        (
            "where",
            (
                r"(?:the\ |our\ |all\ )?(?P<what>[\w-]+(?:\ [\w-]+){0,3}?)"
                r"(?:'s|\s+(?:is|are|lives?|sits?|(?:is|are)\ (?:located|kept|stored|found)))"
                rf"\s+(?:all\ )?(?:in|inside|under|at|below)\s+(?:the\ )?(?P<want>{_PATH})(?:\s+(?:folder|directory|dir))?(?:[\s,;(].*)?"
            ),
        ),
        (
            "where",
            (
                r"(?:the\ |our\ )?(?P<what>[\w-]+(?:\ [\w-]+){0,3}?)\s+(?:runs|listens|answers|lives|is\ (?:exposed\ |reachable\ |served\ )?(?=on|at))\s*"
                r"(?:on|at)\s+(?P<want>(?:the\ )?port\s+\d{2,5}|`?(?:https?://)?(?:[\w-]+(?:\.[\w-]+)*)?:\d{2,5}`?)(?![\w.])"
                r"(?:,?\s+(?:and\ )?not\s+(?:on\ |at\ )?(?:port\ )?:?(?P<avoid>\d{2,5}))?(?:[\s,;(].*)?"
            ),
        ),
        (
            "demands",
            rf"(?:(?:all|our|the)\ )?(?P<want>{_PLURAL}\s+(?:always\ |only\ )?(?:in|as|with|without|under|below|sorted|grouped|ordered"
            rf"|wrapped|capped)\s+[\w/ .-]+?)\s*,?\s+please",
        ),
        ("please", rf"(?<!no\ )(?P<want>(?:{_NAME}\s+){{0,3}}{_NAME})\s*,?\s+please"),
        (
            "forbids",
            rf"{TO}(?:(?:don'?t|do\ not|never|not(?:\ to)?)\s+(?:ever\ )?(?P<avoid>(?!forget\b)\w.*)|(?:avoid|stop)\s+(?P<stops>\w.*))",
        ),
        (
            "forbids",
            (
                r"(?:we|i)\s+(?:really\ |explicitly\ |generally\ |usually\ )?(?:don'?t|do\ not|never)\s+(?:want|use|do|have(?!\s+to\b)|like)\s+"
                r"(?P<avoid>\w.*)"
            ),
        ),
        (
            "forbids",
            (
                r"we\s+(?:generally\ |usually\ )?(?:don'?t|do\ not|never)\s+(?P<avoid>(?:ever\ )?(?:commit|push|squash|mock|merge|rebase|write|add|put|allow"
                r"|ship|edit|touch|force|amend|skip|disable|check\ in)\b.*)"
            ),
        ),
        ("forbids", r"(?:no\ more|without)\s+(?P<avoid>(?!than\b)[\w/-]+(?:\ [\w/-]+){0,4})"),
        ("forbids", r"no\ (?P<avoid>more\ than\ (?:one|two|three|\d+)\s+.+\sper\s+\w+)"),
        ("forbids", r"we\s+(?:generally\ |usually\ )?avoid\s+(?P<avoid>\w.*)"),
        (
            "forbids",
            rf"i\s+(?:really\ )?(?:hate|can'?t\ stand|don'?t\ like)\s+(?P<avoid>(?:[\w-]+\ )?{_NOUNS}(?:\s+(?:in|for|on|with)\s+.+)?)",
        ),
        (
            "forbids",
            r"no\s+(?P<avoid>(?:[\w-]+\ ){0,3}(?:code|state|logic|duplication|magic|recursion|inheritance|sql|whitespace"
            r"|boilerplate))(?:\s+(?:in|on|for)\s+[\w/ -]+?)?(?:\s*,?\s*please)?",
        ),
        (
            "place",
            rf"(?:all\ |our\ |the\ )?(?P<what>(?:[\w-]+\ ){{0,2}}[\w-]+s)\s+(?:always\ )?(?:belongs?|goe?s?|must\ go"
            rf"|should\ go)\s+(?:in|into|under)\s+(?P<want>(?!/){_PATH}|`?[\w.-]+/`?).*",
        ),
        ("demands", rf"(?P<want>{_PLURAL}\s+only\s+(?:for|in|on|when|where|if)\s+.+)"),
        (
            "demands",
            rf"(?:our\ |all\ )?(?P<want>{_PLURAL}\s+(?:always|never)\s+(?:start|begin|end|use|follow|have|contain|include|target|carry"
            rf"|get|need)\b.+)",
        ),
        (
            "demands",
            r"(?P<want>(?:commit|push|test|lint|format|ask|stop|save|run\ [\w ]+?)\s+(?:before|after)\s+(?:every"
            r"|each)\s+[\w-]+)(?:\s*,?\s*please)?",
        ),
        (
            "demands",
            r"(?:our|the|all)\ (?P<want>[\w-]+\s+(?:is|are|gets?)\s+(?:formatted|linted|type-?checked|tested|built|installed|managed"
            r"|run)\s+(?:with|by|via|using)\s+"
            r"(?:p?npm|yarn|bun|uv|poetry|pdm|ruff|black|biome|prettier|eslint|vitest|jest|pytest|tox|nox|mypy|pyright|make|just|mise"
            r"|bazel|gradle|cargo|docker)\b.*)",
        ),
        (
            "demands",
            rf"{TO}(?:only\ |always\ )?(?P<want>(?:answer|reply|respond|write|speak|talk)\s+(?:to\ me\ |me\ )?in\ (?:english|german"
            rf"|french|spanish|italian|portuguese|japanese|chinese|korean|russian))",
        ),
        ("demands", r"you\s+(?:keep|always)\s+forget(?:ting)?\s+to\s+(?P<want>\w.*)"),
        (
            "demands",
            rf"{TO}(?P<want>(?:prefix|suffix|name|label|tag)\s+(?!(?:the|this|that|these|those|my|your|it|a|an)\b)(?:new\ "
            rf"|all\ )?(?:[\w-]+\ )?(?:branches|commits|prs|files|tests|functions|variables|classes|migrations|components)\s+.+)",
        ),
        (
            "forbids",
            (
                r"no\s+(?!(?:more|other|such|new|errors?|changes?|problems?|worries|issues?|failures?|results?|warnings?|need"
                r"|tests?|commits?|migrations?|branch(?:es)?|files?|prs?)\b)"
                r"(?P<avoid>(?:[\w-]+\ ){0,2}[\w-]+s(?:\s+(?:in|on|to|for|from|at)\s+[\w/-]+(?:\ [\w/-]+){0,3})?)(?:\s+(?:please|anywhere|ever|here))*"
            ),
        ),
        ("forbids", rf"(?P<avoid>(?:[\w-]+\ )?{_NOUNS})\s+(?:is|are)\s+(?:not\ allowed|forbidden|banned|a\ no-go)(?:\s+.*)?"),
        (
            "forbids",
            r"(?P<avoid>you\ (?:don'?t|do\ not)\ (?:need|have)\ to\ .+\ (?:every|each)\ (?:time|change|commit)\b.*)",
        ),
        (
            "forbids",
            rf"(?:(?:all|every|each|our|the|any|new)\ )?(?:[\w-]+\ )?{_NOUNS}\s+(?:(?:should|must|may|can)\ (?:not|never)|(?:shouldn|mustn|can)'?t)\s+(?P<avoid>.+)",
        ),
        ("forbids", r"i\s+(?:really\ )?(?:hate|can't\ stand|don't\ like)\s+(?:it\ )?(?:when|that)\s+you\s+(?P<avoid>\w.*)"),
        (
            "forbids",
            r"no\s+(?!.*\s(?:is|are|was|were|gets?)\s)(?P<avoid>(?:new\ )?[\w.-]+(?:\ [\w.-]+){0,3}?\s+(?:(?:without\ (?:asking|my|a|an|prior)|unless|outside(?:\ of)?|except\ (?:in|for))\b.+"
            r"|(?:in|on)\ (?:production|prod|new|committed|shared|library)\b.*))",
        ),
        (
            "forbids",
            r"no\s+(?P<avoid>(?:[\w-]+\ ){1,2}[\w-]+s)\s+(?:anywhere|ever|whatsoever|at\ all)",
        ),
        (
            "demands",
            r"(?P<want>(?:python|node|go|java|ruby|php|rust|swift|kotlin|c\+\+)\ ?[\d.]+\+?\s+only|only\s+(?:python|node|go|java|ruby|php)\ ?[\d.]+)",
        ),
        (
            "demands",
            rf"we\s+(?:only\ |generally\ |usually\ |normally\ )?(?P<want>{_HABITS}\s+(?!(?:the|this|that|it|them|a|an|null|none|nothing|undefined|tomorrow|today|tonight|later|soon|next|on)\b).+)",
        ),
        (
            "demands",
            r"(?:our|all|the)\ (?P<want>[\w-]+(?:\ [\w-]+)?\ (?:names?|titles?|messages?|keys?|ids?)\s+(?:always\ )?(?:start|begin|end)s?\s+(?:with|in)\s+.+)",
        ),
        (
            "demands",
            rf"(?:in|for)\ (?:this|our)\ (?:repo|project|codebase)[,:]?\s+{_NO_REPORT}(?P<want>[\w-]+.*\s(?:always|never|{_MUST[3:-1]})\s.+)",
        ),
        ("demands", rf"{_NO_REPORT}(?P<want>[\w-]+(?:\ [\w-]+){{0,3}}\ in\ (?:this|our)\ (?:repo|project|codebase)\s+{_MUST}\s.+)"),
        ("demands", r"(?:please\ )?(?P<want>[a-z]+\s.+?),?\s+(?:from\ now\ on|going\ forward|in\ (?:the\ )?future)"),
        ("demands", r"(?P<want>[\w-]+(?:\ [\w-]+){1,4})\s+everywhere,?\s+please"),
        ("demands", r"(?:i|we)\s+always\s+(?:want|need|expect)\s+(?:to\ (?:see|have|get)\s+)?(?P<want>\w.+)"),
        ("demands", rf"(?P<want>[\w-]+s\s+(?:go|live|belong|use|start|end|follow|are\ (?:written|named|stored|kept))\b.+)\s+{_HERE}"),
        (
            "demands",
            rf"{TO}(?P<want>use\s+.+?\s+(?:for|in)\s+(?:(?:all|every|any|our)\ )?(?!(?:the|this|these|those|my|a"
            rf"|an)\b)(?:[\w.+-]+\ ){{0,2}}[\w-]+s(?:\s+in\ all\ [\w-]+s)?)",
        ),
        (
            "uses",
            r"(?:this|it)(?:'?s|\s+is)\s+(?:an?\s+)?(?P<want>(?:pnpm|npm|yarn|bun|uv|poetry|pdm|deno|bazel)\b)\s+(?:project|repo"
            r"|repository|codebase|workspace|monorepo)",
        ),
        (
            "demands",
            rf"(?:(?:all|our|the)\ )?(?P<want>{_PLURAL}\s+(?:always\ |only\ )?in\ (?:english|german|french|spanish|lower\ ?case"
            rf"|the\ imperative)(?:\ (?:only|always|mood))?)",
        ),
        (
            "demands",
            r"(?P<want>(?:functions|methods|imports|variables|tests|docstrings|fixtures|migrations)\s+(?:should|must|needs?\ to|have\ to)"
            r"\s+(?:(?:always|never|not|only|all)\ )?(?!(?:pass|work|run|fail|succeed|compile|take|finish)\b|be\ (?:passing|green|red"
            r"|fine|ok|working|done|running)\b).+)",
        ),
        (
            "demands",
            rf"{TO}(?P<want>be\s+(?:more\ |very\ |less\ )?(?:concise|brief|terse|succinct|verbose|short|direct)\b.*\b(?:answers?"
            rf"|responses?|replies|summar(?:y|ies)|explanations?|messages?|comments)\b.*)",
        ),
        (
            "demands",
            r"(?:for\ (?:the\ )?future(?:\ reference)?|for\ (?:the\ )?next\ time)[,:]?\s+(?!(?:we|it|the\ app|users?)\b)(?P<want>\w+\s+\S.*)",
        ),
        ("demands", r"(?:if|when|whenever|every\ time)\s+you(?:'re|\ are)?\s+[^,]+?,?\s+always\s+(?P<want>\w+\s+.*)"),
        ("demands", rf"{TO}always\s+(?P<want>\w+\s+.*)"),
        (
            "demands",
            rf"{TO}only\s+(?P<want>(?!\w+\s+(?:can|may|should|must|could|will)\b)(?!(?:the|a|an|one|two|this|if|in|on|my|your|our|that"
            rf"|those|some)\b)\w+\s+.*)",
        ),
        (
            "demands",
            rf"(?P<want>(?:(?:all|every|each|any|new|public|exported)\ (?:new\ )?(?:[\w-]+\ )?(?:{_NOUNS}|endpoints?|routes?|features?|services?|scripts?|commands?|types?)|commits|commit\ messages|prs|pull\ requests|branches|branch\ names)"
            rf"\s+(?:{_MUST}|needs?|gets?|target|go|start|end)\s+.+)",
        ),
        ("demands", rf"{TO}(?P<want>{_DOES}\s+.+\s+{_WHEN}.*)"),
        ("demands", rf"(?!when\s+(?:(?:you|we)\s+)?(?:finish|complet)){_WHEN}[^,]*,?\s+{TO}(?:always\s+|also\s+)*(?P<want>{_DOES}\s+.+)"),
        (
            "demands",
            rf"{TO}(?P<want>(?:open|make|create|write|name|sign|squash|rebase|prefix|keep)\s+{_PLURAL}\s+(?:as|in|against|into|by|first|small|short"
            r"|simple|minimal|focused|concise|brief)\b.*)",
        ),
        ("demands", r"(?P<want>(?:one|a\ single)\s+[\w-]+(?:\s[\w-]+)?\s+per\s+[\w-]+)(?:\s*,?\s*please)?"),
        (
            "demands",
            rf"{TO}(?P<want>(?:run|execute|lint|format|build)\s+(?:all\ |the\ |unit\ |our\ )*(?:tests?|test\ suite|linter|formatter|code|project|docs|app|server|python"
            rf"|it|everything)?\s*(?:with|via|using|through)\s+{_RUNNER}.*)",
        ),
        (
            "demands",
            rf"(?:to\ )?(?P<want>(?:run|lint|format|build)(?:ning)?\s+[\w\s]{{2,30}}?,?\s+(?:you\ )?(?:use|run|call)\s+{_RUNNER}.*)",
        ),
        ("demands", rf"(?:the\ way\ to\ )(?P<want>(?:run|lint|format|build)\s+[\w\s]{{2,30}}?\ is\ {_RUNNER}.*)"),
        (
            "demands",
            rf"(?P<want>(?:tests|python|scripts|commands|the\ \w+)\s+(?:are|is|should\ be|must\ be)\s+run\s+(?:with|via|through|using)\s+{_RUNNER}.*)",
        ),
        (
            "demands",
            r"(?:it'?s|it\ is)\ (?:very\ |really\ )?important\ (?:that|to)\s+(?P<want>(?:.*\s)?(?:never|always|every|each|all|no|not|only|before|after)\s.+)",
        ),
        (
            "demands",
            r"(?:remember|don'?t\ forget|make\ sure|be\ sure)\ to\ (?P<want>.+\b(?:every|each|always|before|after|whenever)\b.+)",
        ),
        ("demands", r".*?\bmake\ sure\ that\ (?P<want>.+)"),
        ("demands", rf"make\ sure\ (?P<want>.+\s+{_WHEN}.*)"),
        (
            "demands",
            rf"{TO}(?P<want>keep\s+(?!(?:going|trying|working|running|looking|digging|iterating|debugging|fixing|at|up)\b|.*\bas\ (?:they|it|is)\b).+)",
        ),
        (
            "demands",
            r"(?:we|i)\s+(?:always|prefer)\s+(?!(?:get|got|see|saw|have|had|fail|hit|lose|end\ up|run\ into|your|option|variant"
            r"|the\ (?:first|second|third|former|latter|last|other))\b)(?P<want>.*)",
        ),
        ("demands", r".*?\b(?P<want>(?:let\ me\ know|tell\ me|ask\ me|check\ with\ me)\b.*\bbefore\b.+)"),
        ("demands", r"(?P<want>ask(?:\ me)?\ (?:first\ )?before\ .+)"),
        (
            "demands",
            r"(?:from\ now\ on|going\ forward|in\ (?:the\ )?future|next\ time|as\ a\ rule|(?:new\ )?rule)[,:]?\s+(?:please\s+)?(?!(?:around|we|it|they|he|she)\b)(?P<want>[a-z]+\s+\S.*)",
        ),
    )
)
"""Name of a form and its pattern, which begins behind opening words; ``want``, ``avoid`` and ``stops`` are what it is about."""


def beginnings(said: str) -> list[int]:
    """Return where a form may begin in a sentence: behind each of its opening words, the last one first, and where it begins itself.

    They are looked for once: inside each of the patterns they took three quarters of the time to compile these.
    """
    found = [0]
    while (opened := _ONE_OPENING_WORD.match(said, found[-1])) is not None:
        found.append(opened.end())
    return found[::-1]


HINT = lazy_pattern(
    r"(?i)\b(?:moved|migrated|converted|ported|changed|switched|use|uses|using|prefer|rather|instead|not|don'?t|never|always|only|avoid|stop|keep|please|make sure|belongs?|lives?|goes|go"
    r"|put|want|before|after|when|whenever|without|no|switch|stick|should|must|needs?|have to|every|each|remember|forget|target|per|off"
    r"|on|with|we|our|hate|everywhere|next time|from now|going forward|future|important|rule|allowed|forbidden|is run|are run|open|write|name|sign)\b"
    r"|n'?t\b|\bthis is an?\b|(?:\b(?:is|are|sits?|located|kept|stored|found)|'s)\s+(?:all )?(?:in|inside|under|at|below)\s"
)
"""A sentence without one of these lays nothing down."""

OF_WORK = lazy_pattern(
    r"(?i)(?<![\w-])(?:prs?|pull requests?|merge requests?|commits?|committed|committing|push(?:es|ed|ing)?|merg(?:e|es|ed|ing)"
    r"|rebas(?:e|es|ed|ing)|squash(?:es|ed|ing)?|amend|branch(?:es)?|main|master|upstream|worktrees?|tests?|testing|specs?|lint(?:er|ing|s)?|format(?:ter|ting)?"
    r"|type check(?:er)?|changelog|docs|documentation|comments?|docstrings?|sudo|emojis?|mock(?:s|ing)?|stubs?|fixtures?|snapshots?|migrations?"
    r"|dependenc(?:y|ies)|containers?|release|staging|production|hooks?|tabs|spaces|linear|jira|notion"
    r"|(?:default|named|relative|absolute|wildcard|barrel) (?:exports?|imports?)|semicolons?|(?:single|double) quotes|console\.log|print(?: statements)?"
    r"|todos?|(?:variable|function|class|file|test) names?|(?:python|node|go|java|ruby|php) ?\d+(?:\.\d+)*|we (?:prefix|suffix|name|version|sign|lint|format|document|tag|pin)"
    r"|we (?:sort|group) (?:(?:our|all|the) )?(?:\w+ )?(?:imports?|exports?|fields|keys|props|methods|tests)"
    r"|type (?:hints?|annotations?)|generated (?:files?|code)|lock ?files?|vendor/?|node_modules|backwards? compatibility|markdown files?"
    r"|trailing commas?|magic numbers|globals|inheritance|typescript|conventional commits"
    r"|type[: -]ignores?|ts-ignores?|noqa|eslint-disable\w*|readmes?|readme files?|functions|imports|exceptions?|packages"
    r"|abbreviations|co-?authors?|global state|commented[- ]out code|dead code"
    r"|(?:bump|hard-?code|reformat|monkey-?patch|autogenerate|downgrade|over-?engineer|copy-?paste)\w*|before (?:you )?(?:install"
    r"|edit)\w*|release notes"
    r"|(?:your|long|short|every|each|all) (?:long |short )?(?:answers?|responses?|replies|summar(?:y|ies)|explanations?)"
    r"|apologi[sz]\w*|error messages|log messages"
    r"|snake_case|camelcase|pascalcase|kebab-case|(?:python|js|ts|javascript|typescript) (?:files|code)"
    r"|(?:answer|reply|respond|speak|write)\w* (?:\w+ )?in (?:english|german|french|spanish|italian|portuguese|japanese|chinese|korean|russian))(?![\w-])"
)
"""What of the work a rule can be about that holds in the next session too: a program's own behavior is no rule of work."""
