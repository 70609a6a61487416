"""What figures show, as plain values without Matplotlib: numbers, colours, labels and units, from runs and results."""

from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Key, Level, Line, Panel, Picture
from sottovoce.reports.pictures.run_picture import run_picture
