"""The numbers of a noise that was designed, read from the file that names them.

    [noise]
    kind = "designed"
    file = "design.json"      from where the command is given, as data are; `sottovoce design` and Design.save write it

What stands in the file takes the place of its name, so that everything that is made of a configuration, an agreement among parties above all, holds
numbers: two parties whose files say the same agree, whatever they are called, and a file that was changed afterwards changes nothing that was agreed on.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.problems import check_plain_file
from sottovoce.wording import brief

_MOST_BYTES = 64_000_000  # far beyond any design, and small enough to be read


def with_numbers(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of an experiment, with the numbers of a design in the place of the file that [noise] names.

    Raises:
        ConfigError: no such file, or one that holds no design.
    """
    noise = data.get("noise")
    if not isinstance(noise, Mapping) or noise.get("kind") != "designed" or not isinstance(noise.get("file"), str):
        return data
    path = Path(noise["file"])
    check_plain_file(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        held = json.loads(path.read_text(encoding="utf-8"))["noise"]
        numbers = {name: value for name, value in dict(held).items() if value is not None}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f'[noise] file = "{brief(noise["file"])}" is no design ({brief(str(error), 200)}). Write it with `sottovoce design`, or with '
            f"save(path) of what sv.noise.design returns."
        ) from error
    rest = {key: value for key, value in noise.items() if key != "file"}
    return {**data, "noise": {**numbers, **rest}}
