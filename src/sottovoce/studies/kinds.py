"""Studies of privacy, by their kind: the keys that each takes, and the function that computes it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.values import suggest
from sottovoce.studies.audit import AuditSection, run_audit
from sottovoce.studies.gopa import SilentSection, VarianceSection, run_silent, run_variance
from sottovoce.studies.gossip import (
    GossipDistanceSection,
    GossipRoundsSection,
    LearningDistanceSection,
    run_gossip_distance,
    run_gossip_rounds,
    run_learning_distance,
)
from sottovoce.studies.leak_direction import run_direction, run_exact
from sottovoce.studies.leak_images import ImagesSection, run_images
from sottovoce.studies.leaks import DirectionSection, ExactSection
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection
from sottovoce.studies.walk import WalkLearningSection, WalkSection, run_walk, run_walk_learning

Run = Callable[..., PrivacyStudyResult]  # run(section, base, source=, progress=)


class Kind(NamedTuple):
    """What a kind of study reads, and how it is computed."""

    section: type[PrivacyStudySection]
    run: Run


KINDS: dict[str, Kind] = {
    "audit": Kind(AuditSection, run_audit),
    "gopa_silent": Kind(SilentSection, run_silent),
    "gopa_variance": Kind(VarianceSection, run_variance),
    "gossip_distance": Kind(GossipDistanceSection, run_gossip_distance),
    "gossip_rounds": Kind(GossipRoundsSection, run_gossip_rounds),
    "leak_direction": Kind(DirectionSection, run_direction),
    "leak_exact": Kind(ExactSection, run_exact),
    "leak_images": Kind(ImagesSection, run_images),
    "learning_distance": Kind(LearningDistanceSection, run_learning_distance),
    "walk": Kind(WalkSection, run_walk),
    "walk_learning": Kind(WalkLearningSection, run_walk_learning),
}


def read_privacy_study(table: Mapping[str, Any]) -> PrivacyStudySection:
    """The section that a `[[privacy_study]]` table describes.

    Raises:
        ConfigError: no kind, or an unknown one.
        ValidationError: keys that do not fit the kind.
    """
    kind = table.get("kind")
    if kind not in KINDS:
        raise ConfigError(f"[[privacy_study]] has kind = {kind!r}{suggest(str(kind), KINDS)}")
    return KINDS[kind].section.model_validate(dict(table))


def run_privacy_study(
    section: PrivacyStudySection,
    base: Mapping[str, Any],
    *,
    source: str,
    progress: Callable[[str], None] = lambda text: None,
) -> PrivacyStudyResult:
    """Compute a study; `base` is the configuration of the file, which some kinds use, and `source` its name in messages."""
    return KINDS[section.kind].run(section, base, source=source, progress=progress)
