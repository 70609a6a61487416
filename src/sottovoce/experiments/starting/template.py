"""Commented configurations to start from, one for each way of working together; they lie in the folder `templates`."""

from importlib.resources import files

from sottovoce.numbers import chosen

TEMPLATES = {
    "peers": "agents on a graph talk to their neighbours (the default)",
    "federation": "agents and a relay that averages and is trusted",
    "gopa": "agents and a relay that learns masked sums alone",
    "gossip": "values are averaged with the neighbours; for `sottovoce pairwise`",
    "parties": "agents as processes of their own, on one machine or on many",
    "walk": "one token walks from agent to agent",
}


def template(name: str) -> str:
    """The text of a configuration that runs as it is.

    Raises:
        ConfigError: there is no such template.
    """
    chosen("--template", name, tuple(TEMPLATES))
    return files("sottovoce.experiments.starting").joinpath("templates", f"{name}.toml").read_text(encoding="utf-8")
