"""The numbers of a noise that was designed, read from the file that names them.

    [noise]
    kind = "designed"
    file = "design.json"      beside the experiment's file; `sottovoce design` and Design.save write it

What stands in the file takes the place of its name, so that everything that is made of a configuration, an agreement among parties above all, holds
numbers: two parties whose files say the same agree, whatever they are called, and a file that was changed afterwards changes nothing that was agreed on.
"""

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.problems import check_plain_file
from sottovoce.wording import brief

_MOST_BYTES = 64_000_000  # far beyond any design, and small enough to be read


def read_design(data: MutableMapping[str, Any], folder: Path) -> None:
    """Put the numbers of a design in the place of the file that [noise] names; everything else stays.

    Args:
        data: the tables of an experiment's file.
        folder: in which that file is.

    Raises:
        ConfigError: no such file, or one that holds no design.
    """
    noise = data.get("noise")
    if not isinstance(noise, dict) or noise.get("kind") != "designed" or not isinstance(noise.get("file"), str):
        return
    path = folder / noise["file"]
    check_plain_file(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        held = json.loads(path.read_text(encoding="utf-8"))["noise"]
        numbers = {name: value for name, value in dict(held).items() if value is not None}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f'[noise] file = "{brief(noise["file"])}": {brief(str(path), 200)} is no design ({brief(str(error), 200)}). Write it with `sottovoce design`, or with save(path) of '
            f"what sv.noise.design returns."
        ) from error
    rest = {key: value for key, value in noise.items() if key != "file"}
    data["noise"] = {**numbers, **rest}
