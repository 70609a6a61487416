"""Studies of privacy, by their kind. A new one is a file with its section, its computation and its pictures, and a line here."""

from collections.abc import Mapping
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.studies import (
    audit,
    gopa_silent,
    gopa_variance,
    gossip,
    leak_direction,
    leak_exact,
    leak_images,
    learning_distance,
    noise_gains,
    renyi_conversion,
    walk,
    walk_distance,
    walk_truth,
)
from sottovoce.studies.cells import Say, StudyFile
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection
from sottovoce.wording import suggest

KINDS: dict[str, Kind] = {
    **audit.KINDS,
    **gopa_silent.KINDS,
    **gopa_variance.KINDS,
    **gossip.KINDS,
    **leak_direction.KINDS,
    **leak_exact.KINDS,
    **leak_images.KINDS,
    **learning_distance.KINDS,
    **noise_gains.KINDS,
    **renyi_conversion.KINDS,
    **walk.KINDS,
    **walk_distance.KINDS,
    **walk_truth.KINDS,
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
    """Compute a study.

    Args:
        section: what to compute.
        base: the configuration of the file, which some kinds use.
        source: the name of the file in messages.
        progress: told what comes next.
    """
    return KINDS[section.kind].run(section, StudyFile(base, source, progress))
