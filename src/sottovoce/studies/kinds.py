"""Studies of privacy, by their kind. A new one is a file with its section, its computation and its pictures, and a line here."""

from collections.abc import Mapping
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.studies import (
    audit,
    gopa_silent,
    gopa_variance,
    gossip_distance,
    gossip_rounds,
    leak_direction,
    leak_exact,
    leak_images,
    learning_distance,
    walk,
    walk_learning,
)
from sottovoce.studies.cells import Say
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection
from sottovoce.wording import suggest

KINDS: dict[str, Kind] = {
    "audit": audit.KIND,
    "gopa_silent": gopa_silent.KIND,
    "gopa_variance": gopa_variance.KIND,
    "gossip_distance": gossip_distance.KIND,
    "gossip_rounds": gossip_rounds.KIND,
    "leak_direction": leak_direction.KIND,
    "leak_exact": leak_exact.KIND,
    "leak_images": leak_images.KIND,
    "learning_distance": learning_distance.KIND,
    "walk": walk.KIND,
    "walk_learning": walk_learning.KIND,
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
    progress: Say = lambda text: None,
) -> PrivacyStudyResult:
    """Compute a study; `base` is the configuration of the file, which some kinds use, and `source` its name in messages."""
    return KINDS[section.kind].run(section, base, source=source, progress=progress)
