"""`sottovoce doctor`: what is installed and where things run."""

import os
import platform
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from sottovoce.cli.output import JsonOption, QuietOption, show, table


def doctor(as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Show versions, devices, threads, memory, the compilation cache and optional extras."""
    wanted = _requirements()
    facts = {
        "versions": {"python": platform.python_version(), **_installed(["sottovoce", *wanted[None]])},
        "platform": platform.platform(),
        "devices": _devices(),
        "threads": _threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "compilation_cache": _compilation_cache(),
        "extras": {extra: _installed(names) for extra, names in wanted.items() if extra is not None},
    }
    said = {name: _SENTENCES.get(name, str)(fact) for name, fact in facts.items() if not quiet or name in _NEEDED}
    rows = [(name.removesuffix("_bytes").replace("_", " "), sentence) for name, sentence in said.items()]
    show(facts, as_json=as_json, text=table(("what", "found"), rows, words=("what", "found")))


def _requirements() -> dict[str | None, list[str]]:
    """Names of the packages that the core (None) and every extra ask for, as the installed package declares them."""
    names: dict[str | None, list[str]] = {None: []}
    for requirement in requires("sottovoce") or ():
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement)
        package = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        names.setdefault(extra.group(1) if extra else None, []).append(package)
    return names


def _installed(names: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _devices() -> list[str]:
    import jax

    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]


def _threads() -> dict[str, Any]:
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {"cores": len(os.sched_getaffinity(0)), **{name: os.environ.get(name) for name in variables}}


def _compilation_cache() -> dict[str, Any]:
    from sottovoce.simulation import enable_compilation_cache

    folder = enable_compilation_cache()
    files = folder.rglob("*") if folder.is_dir() else ()
    return {"folder": str(folder), "bytes": sum(path.stat().st_size for path in files if path.is_file())}


def _versions(fact: dict[str, str | None]) -> str:
    return ", ".join(f"{package} {number or 'MISSING'}" for package, number in fact.items())


def _extras(fact: dict[str, dict[str, str | None]]) -> str:
    lines = []
    for extra, packages in fact.items():
        missing = [package for package, number in packages.items() if number is None]
        lines.append(f"{extra}: " + (f"missing {', '.join(missing)}" if missing else "present"))
    return "\n".join(lines)


def _threads_in_words(fact: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value or 'not set'}" for key, value in fact.items())


def _cache_in_words(fact: dict[str, Any]) -> str:
    return f"{fact['folder']}, {fact['bytes'] / 2**20:.1f} MiB" if fact["folder"] else "off"


_NEEDED = ("versions", "devices")  # what decides whether and where things run

_SENTENCES: dict[str, Callable[[Any], str]] = {
    "versions": _versions,
    "devices": ", ".join,
    "threads": _threads_in_words,
    "memory_bytes": lambda fact: f"{fact / 2**30:.1f} GiB",
    "compilation_cache": _cache_in_words,
    "extras": _extras,
}
