"""What the [deployment] table of an experiment's file may say: what parties that run it among themselves agree on beyond the run.

run = "hospitals-2027-03"                  the name of this run; never used twice
roster = "roster.json"                     who takes part
collude = "all"                            how many others may put together what they know
relay = "untrusted"                        or "trusted": it may read messages, and add `central` noise
releases = "own"                           each agent gets its own model; "public": everybody all of them; or a list of names
records = { basel = 400, bern = 250 }      how many records every agent has at least, where that enters a guarantee or a weight
features = 784                             how many numbers a record has, where files hold plain numbers and no columns are declared
fraction_bits = 30                         everything sent is a whole number of units of 2^-30; left out: chosen by the size of the noise
lost_neighbour = "wait"                    what an agent does when another one is not heard of; "stop": the run ends; "exclude": go on without it
minimum_agents = 3                         with "exclude": how many agents have to be left, more than half of them
exclude_after = 300                        with "exclude": seconds of silence after which somebody counts as lost
time_limit = 86400                         seconds that a party waits for the others before it stops

Nothing here that decides privacy has a default but the one at which least is trusted.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.experiments.config.values import Count, Section, wrong
from sottovoce.wording import brief, brief_value

DAY = 86_400  # seconds
SILENCE = 300  # seconds after which somebody counts as lost, where the file does not say


def _colluding(given: Any) -> Any:
    if given == "all" or (type(given) is int and given >= 1):
        return given
    raise wrong(f'write "all", or how many others, a whole number of at least 1; given {brief_value(given)}')


def _released(given: Any) -> Any:
    if given in ("own", "public"):
        return given
    names = isinstance(given, list | tuple) and all(isinstance(each, str) and each for each in given)
    if not names or not given:
        raise wrong(f'write "own", "public", or a list of names of the roster; given {brief_value(given)}')
    if len(set(given)) != len(given):
        raise wrong(f"a name stands twice in {brief_value(given)}; keep one")
    return tuple(given)


class DeploymentSection(Section):
    """What parties agree on beyond the run itself."""

    run: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    roster: str = Field(min_length=1)
    collude: Annotated[int | Literal["all"], BeforeValidator(_colluding)] = "all"
    relay: Literal["untrusted", "trusted"] = "untrusted"
    releases: Annotated[str | tuple[str, ...], BeforeValidator(_released)] = "own"
    records: dict[str, Count] | None = Field(default=None, min_length=1)
    features: Count | None = None
    fraction_bits: Annotated[int, Field(ge=1, le=52)] | None = None
    lost_neighbour: Literal["wait", "stop", "exclude"] = "wait"
    minimum_agents: Count | None = None
    exclude_after: Count | None = None
    time_limit: Count = DAY

    @property
    def silence(self) -> int:
        """Seconds of silence after which somebody counts as lost; 0 where nobody is excluded."""
        if self.lost_neighbour != "exclude":
            return 0
        return min(SILENCE, self.time_limit) if self.exclude_after is None else self.exclude_after

    @model_validator(mode="after")
    def _exclusion_is_agreed_on(self) -> Self:
        if self.lost_neighbour == "exclude" and self.minimum_agents is None:
            raise wrong(
                'lost_neighbour = "exclude" needs minimum_agents, how many agents have to be left: more than half of them'
            )
        if self.lost_neighbour != "exclude" and (self.minimum_agents or self.exclude_after):
            raise wrong('minimum_agents and exclude_after belong to lost_neighbour = "exclude"; leave them out')
        if self.exclude_after is not None and self.exclude_after > self.time_limit:
            raise wrong(
                f"exclude_after = {self.exclude_after} is above time_limit = {self.time_limit}; nobody would wait for it"
            )
        return self

    @model_validator(mode="after")
    def _names_can_be(self) -> Self:
        for name in self.records or ():
            if not name or name != name.strip() or not name.isprintable():
                raise wrong(f"records has the name {brief(name)!r}, which no party has; use the names of the roster")
        return self
