"""Words that developers use for one another, for what looks for words."""

from __future__ import annotations

_SYNONYMS_TEXT = """
    abort cancel; add append insert; app application; arg argument param parameter; authentication auth login;
    authorization permission; begin start; binary executable program; boolean bool; bug defect issue; build compile;
    bump upgrade update; change edit modify; changelog notes; check validate verify; choose pick select; cleanup tidy;
    color colour; combine merge; command cli; comment remark; config configuration settings preferences; copy clone
    duplicate; crash panic abort; create generate make; credential secret password token; date day time timestamp;
    delete drop erase remove; dependency library package crate module; developer dev; dict dictionary map mapping;
    directory dir folder; disable off; display render show; documentation docs doc readme; download fetch pull; empty
    blank; enable activate; environment env; error exception failure; execute run; exit quit; extension plugin addon;
    extract unpack; field attribute property; filter mask; flag option switch; flaky intermittent; format layout;
    function method; glob pattern wildcard star; hash checksum digest; hang freeze stuck; hide mask redact; hint
    suggestion; identifier id; ignore skip; image picture screenshot; improve simplify refactor; information info;
    initialize init setup; install setup; job task; kill terminate stop; latest newest recent; launch spawn start;
    license licence; linter lint; list array; log logging; mac macos darwin apple; main master default; maximum largest
    limit; migrate move; mock fake stub; null nil none; number count; obsolete deprecated outdated stale; organization
    org; parse decode; person user people; pr pull; project repo repository; prompt question message; publish release
    ship; push upload; quote escape; random arbitrary; regex regexp pattern; reject refuse deny; rename move; replace
    substitute; response answer reply; retry again; revert undo rollback; review feedback; serialize encode marshal;
    session conversation chat; shell terminal; shorten truncate trim; split chunk; spelling typo; statistics metrics
    analytics telemetry; status state; string text; suppress silence ignore; symlink link; temp temporary tmp; ticket
    issue; timeout expired; title heading header; type kind; unknown unrecognized unexpected; url link address;
    username user; variable var; version release; vulnerability security; warning warn; website site page; workflow
    pipeline ci action; write save store; zip archive
"""
SYNONYMS = tuple(tuple(group.split()) for group in _SYNONYMS_TEXT.split(";"))
"""Groups of words that stand for one another; a word may be in several."""
