"""Experiments: a TOML file in, a run folder out."""

from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.toml_file import parse, read
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import guarantees
from sottovoce.experiments.record import load, save
from sottovoce.experiments.run import default_folder, final_metrics, run_experiment
from sottovoce.simulation import simulate

__all__ = [
    "Config",
    "Experiment",
    "build",
    "default_folder",
    "final_metrics",
    "guarantees",
    "load",
    "parse",
    "read",
    "run_experiment",
    "save",
    "simulate",
]
