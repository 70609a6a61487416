"""Write a figure as PNG and SVG, with its caption inside. The same figure gives the same bytes, and no half-written file."""

import io
import os
import warnings
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import caption_of, put_caption

DPI = 150


def save(figure: Figure, folder: str | Path, name: str, *, caption: str) -> list[Path]:
    """Write folder/name.png and folder/name.svg with the caption under the picture.

    Args:
        figure: From a function of this package, or any other. It is left as it was.
        folder: Made when it does not exist.
        name: File name without ending.
        caption: What was run; `describe(run)` gives the sentence.

    Returns:
        The two paths, PNG first.

    Raises:
        ConfigError: The name is not a plain file name, or the caption says nothing.
    """
    if not name or Path(name).name != name or name.startswith("."):
        raise ConfigError(f"name = {name!r}; give a plain file name without folder and ending, such as 'curves'.")
    if len(caption.split()) < 4:
        raise ConfigError(
            f"caption = {caption!r}; a figure leaves with a caption that says what was run. Use describe(run)."
        )
    folder = Path(folder)
    previous = caption_of(figure)
    with style.applied():
        room = put_caption(figure, caption)
        try:
            files = {
                folder / f"{name}.png": _rendered(figure, room, "png", {"Software": None, "Description": caption}),
                folder / f"{name}.svg": _rendered(
                    figure, room, "svg", {"Date": None, "Creator": None, "Description": caption}
                ),
            }
        finally:
            put_caption(figure, previous)
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        _write(path, content)
    return list(files)


def _rendered(figure: Figure, room: float, kind: str, metadata: dict[str, str | None]) -> bytes:
    buffer = io.BytesIO()
    width, height = figure.get_size_inches()
    frame = Bbox.from_extents(0, -room, width, height)
    with warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; that is seen in the picture and needs no lines on the terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure.savefig(buffer, format=kind, dpi=DPI, bbox_inches=frame, metadata=metadata)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
