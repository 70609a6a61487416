"""What the help of each command shows: lines that can be typed as they stand, from the folder of a file `my.toml`."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("sottovoce demo", "sottovoce demo --out results --json"),
    "new": (
        "sottovoce new my.toml",
        "sottovoce new gossip.toml --template gossip",
        "sottovoce new own.toml --data own.csv --target ill --owner ward",
    ),
    "check": ("sottovoce check my.toml", "sottovoce check my.toml noise.kind=none"),
    "run": ("sottovoce run my.toml", "sottovoce run my.toml noise.std=0.2 --out results"),
    "train": (
        "sottovoce train my.toml --ledger my.ledger --dataset patients --budget 8",
        "sottovoce train my.toml --ledger my.ledger --dataset patients --out again",
    ),
    "predict": (
        "sottovoce predict results new.csv --out predictions.csv",
        "sottovoce predict results new.csv --out of-one-agent.csv --agent 3",
    ),
    "account": ("sottovoce account my.toml", "sottovoce account my.toml --explain --per-agent"),
    "audit": ("sottovoce audit my.toml --pairs 2000 --confidence 0.99",),
    "calibrate": ("sottovoce calibrate my.toml --epsilon 2", "sottovoce calibrate my.toml --noise 0.2"),
    "design": (
        "sottovoce design my.toml design.targets.eavesdropper=1",
        "sottovoce design my.toml design.targets.eavesdropper=1 --json",
    ),
    "pairwise": (
        "sottovoce pairwise my.toml --attacker 3",
        "sottovoce pairwise walk.toml --tokens 2 --resolution fine",
        "sottovoce pairwise walk.toml --published-seed 7",
    ),
    "gradients": ("sottovoce gradients my.toml",),
    "compare": ("sottovoce compare rizk-regression",),
    "reproduce": ("sottovoce reproduce list", "sottovoce reproduce cyffers2022-walk"),
    "list": ("sottovoce list",),
    "docs": ("sottovoce docs", "sottovoce docs guarantees"),
    "doctor": ("sottovoce doctor",),
    "ledger": (
        "sottovoce ledger create my.ledger -u record -a replace -d 1e-5 --budget 8",
        "sottovoce ledger my.ledger",
        "sottovoce ledger export my.ledger --as basel --folder keys --out head.json",
        "sottovoce ledger check my.ledger head.json",
    ),
    "keys": (
        "sottovoce keys new ward-1 --address 127.0.0.1:7443 --folder keys",
        "sottovoce keys show ward-1 --folder keys",
    ),
    "roster": ("sottovoce roster add keys/ward-1.entry.json", "sottovoce roster show"),
    "party run": (
        "sottovoce party run my.toml --data my.csv --as basel -k keys -s my.ledger",
        "sottovoce party run my.toml --as relay -k keys -s relay.ledger",
    ),
    "party status": (
        "sottovoce party status",
        "sottovoce party status parties/hospitals-1/basel --json",
    ),
    "relay": (
        "sottovoce relay config roster.json --address 127.0.0.1:4222 --out relay",
        "sottovoce relay open relay",
    ),
    "deploy-local": (
        "sottovoce deploy-local my.toml",
        "sottovoce deploy-local my.toml experiment.rounds=20 --secret",
    ),
}


def epilog(name: str) -> str:
    """The examples of a command, a line each, for the end of its help.

    Raises:
        KeyError: a command without an example; every one has some.
    """
    return "\n\n".join(["Example:" if len(EXAMPLES[name]) == 1 else "Examples:", *EXAMPLES[name]])
