"""``ctx repair``, ``ctx backup``, ``ctx encrypt`` and ``ctx restore``."""

from __future__ import annotations

from pathlib import Path

import click

from ctx_pipeline.cli.output import confirm, counted, emit, json_option, one_line, say
from ctx_pipeline.model.display import size


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def repair(yes: bool, as_json: bool) -> None:
    """Mend damaged files of the store; name what is lost for good.

    Reads every file first and shows what is damaged. Raw records are restored from the
    agents' files where these still hold them, the ledger and all derived data are made
    again; databases that nothing can make again are set aside. Exit 1 where damage stays.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.maintenance import repair as stage
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        found = stage.verify_deep(store, settings)
        if not as_json:
            for line in found.lines():
                say(one_line(line, 400))
        if found.sound:
            if as_json:
                emit({"damaged_before": [], "done": [], **found.to_json()})
            return
        if not yes:
            confirm("Repair them?")
        report = stage.repair(store, settings, found.damaged)
    if as_json:
        emit(report.to_json())
    else:
        for line in [*report.done, *report.after.lines()]:
            say(one_line(line, 400))
    if not report.after.sound:
        raise SystemExit(1)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--check", "only_check", is_flag=True, help="Only read the backup whole and compare it with its digests.")
@click.option(
    "--encrypt",
    multiple=True,
    metavar="RECIPIENT",
    help="Encrypt to this public key (age1..., ssh-...) or the keys of this file; repeatable.",
)
@json_option
def backup(folder: Path, only_check: bool, encrypt: tuple[str, ...], as_json: bool) -> None:
    """Copy the store to DIR and prove the copy; a backup that is there gets only what changed.

    Others may write meanwhile. Caches, the page and the history of runs are left out: the
    first run after a restore makes them again. What you forget later goes from DIR too,
    where it can be reached. DIR holds raw records in plain text, as the store does, unless
    you encrypt it; then it stays encrypted, and only the private key restores it.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.maintenance import backup as stage
    from ctx_pipeline.storage import open_store

    if only_check:
        wrong = stage.check(folder)
        if as_json:
            emit({"sound": not wrong, "damaged": [list(one) for one in wrong]})
        else:
            for rel, what in wrong:
                say(one_line(f"{rel} {what}", 400))
            say(f"{len(wrong):,} damaged files" if wrong else "sound: every file is what was copied")
        if wrong:
            raise SystemExit(1)
        return
    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        made = stage.backup(store, folder, encrypt=encrypt)
    if as_json:
        emit(made.to_json())
    else:
        ended = "proved, encrypted" if made.encrypted else "proved"
        say(f"{made.folder}: {made.files:,} files, {size(made.bytes)}; {made.copied:,} copied, {made.removed:,} removed; {ended}")
        for rel in made.damaged:
            say(one_line(f"damaged in the store, not copied: {rel}; see: ctx repair", 400), fg="red", err=True)
    if made.damaged:
        raise SystemExit(1)


@click.command()
@click.option("--identity", type=click.Path(dir_okay=False, path_type=Path), help="File with the private key, as age-keygen makes it.")
@click.option("--off", is_flag=True, help="Write the records in plain text again.")
@json_option
def encrypt(identity: Path | None, off: bool, as_json: bool) -> None:
    """Encrypt the raw records of the store to a key of age; say whether they are.

    From then on what is captured is encrypted too. The key stays where it lies, and every
    run and repair needs it there; lists, searches, reports and the page do not. A copy of
    the store without the key shows what was derived, with secrets replaced, and no record.
    Keep a copy of the key: without it the records are lost.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.pipeline.capture import encrypting
    from ctx_pipeline.storage import open_store

    if identity and off:
        raise UsageError("--off needs no --identity: the store knows the key", hint="ctx encrypt --help")
    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        told = encrypting.encrypt(store, identity) if identity else encrypting.decrypt(store) if off else encrypting.state(store)
    if as_json:
        emit(told.to_json())
    elif told.recipient:
        say(f"{told.encrypted:,} of {told.objects:,} raw objects are encrypted to {told.recipient}; the key lies in {told.identity}")
    else:
        plain = told.objects - told.encrypted
        say(f"{plain:,} of {told.objects:,} raw objects are in plain text; to encrypt them: ctx encrypt --identity FILE")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("--identity", type=click.Path(dir_okay=False, path_type=Path), help="File with the private key of an encrypted backup.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def restore(folder: Path, identity: Path | None, yes: bool, as_json: bool) -> None:
    """Put the backup in DIR in the place of the store; the store that is there is renamed.

    Every file is compared with its digest first. What was forgotten since is forgotten again.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.maintenance import backup as stage

    settings, _ = choose(settings_module.load(), demo=False, samples=False, end=False)
    if not yes:
        confirm(f"Put the backup in the place of {settings.home}?")
    done = stage.restore(folder, settings, identity=identity)
    if as_json:
        emit({"files": done.files, "bytes": done.bytes, "aside": done.aside, "forgotten": done.forgotten})
        return
    say(f"{done.files:,} files, {size(done.bytes)} restored to {settings.home}")
    if done.aside:
        say(f"the store that was there lies in {done.aside}")
    if done.forgotten:
        say(f"{counted(done.forgotten, 'session')} forgotten since {'is' if done.forgotten == 1 else 'are'} forgotten again")
    say("make the tables, the search and the page current: ctx run")
