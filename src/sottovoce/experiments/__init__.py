"""Experiments: a TOML file in, a run folder out.

    config/       what a file may say, how it is read, and the parts that each table names
    build         all parts together, checked                         claims        what a simulated run may say of itself
    without_data  the same without data, for parties                  own_records   one party's records, and how little one of them can change
    agreed        what parties agree on, from a file and a roster
    privacy       guarantees, calibrated noise, spending              releases      what a simulation may not be used for
    run           the run, chunk by chunk                             record        the folder that keeps it
    starting/     files to start from
    comparison/   noise schemes at equal privacy                      designing     noise computed for targets
    audit, pairwise (pairs, walk_pairs), coalitions, gradients, demo: what else is asked of a file

Whoever stands above imports from here. What simulates, and what parties agree on, is imported when first used.
"""

from typing import TYPE_CHECKING

from sottovoce.experiments.build import build
from sottovoce.experiments.calibration import Calibrated, Given, calibrate_file
from sottovoce.experiments.checking import Checked, check_file
from sottovoce.experiments.coalitions import NO_HELP, coalition_table
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.overrides import apply_override
from sottovoce.experiments.config.privacy import ObserverName
from sottovoce.experiments.config.toml_file import parse, read, read_toml
from sottovoce.experiments.config.topology import TopologySection, TopologyTable
from sottovoce.experiments.config.unfilled import lines_to_complete
from sottovoce.experiments.config.values import (
    Count,
    Delta,
    Fraction,
    NonNegative,
    Positive,
    Section,
    Seed,
    ShownLabel,
    checked_label,
    complaint,
)
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.model_file import load_model, may_be_released
from sottovoce.experiments.pairs import (
    RECEIVER,
    VALIDITY,
    DistanceRow,
    Measure,
    Pairs,
    describe_pairs,
    distance_rows,
    epsilon_of,
    pair_arrays,
)
from sottovoce.experiments.pairwise import graph_distances, most_central, pairs_of
from sottovoce.experiments.privacy import (
    LINEAR_VIEW,
    guarantees,
    guarantees_of_agents,
    protection_notes,
    refuse_unkept_promises,
    size,
    statement,
)
from sottovoce.experiments.recommended import RecommendedSetting, recommended_setting
from sottovoce.experiments.record import is_finished, load, load_guarantees, save
from sottovoce.experiments.releases import release_note
from sottovoce.experiments.results_folder import results_folder
from sottovoce.experiments.starting.draft import Roles, draft
from sottovoce.experiments.starting.survey import Survey, survey
from sottovoce.experiments.starting.template import TEMPLATES, template
from sottovoce.experiments.walk_pairs import AllWays, PublishedPath, Ways
from sottovoce.imported_later import imported_later
from sottovoce.simulation import simulate

if TYPE_CHECKING:
    from sottovoce.experiments.agreed import agents_of, agreement, agreement_on, members_of
    from sottovoce.experiments.audit import audit_observer, audits, describe_audits
    from sottovoce.experiments.comparison.compare import compare
    from sottovoce.experiments.comparison.file import read_comparison, run_comparison, write_comparison
    from sottovoce.experiments.comparison.result import Comparison, Row, aligned
    from sottovoce.experiments.demo import Demonstration, run_demo
    from sottovoce.experiments.designing import DesignedFile, SchemeRow, design_file
    from sottovoce.experiments.gradients import PERCENTILES, gradient_norms
    from sottovoce.experiments.joining import Joining, check_line, prepare_joining, run_cost, take_part, write_own_model
    from sottovoce.experiments.own_records import own_guarantee, own_problem, own_sensitivity
    from sottovoce.experiments.predict import model_in, predict_file, write_predictions
    from sottovoce.experiments.rehearsing import Outcome, Rehearsal, outcome_of, prepare_rehearsal
    from sottovoce.experiments.run import default_folder, final_metrics, run_experiment
    from sottovoce.experiments.train import Trained, default_training_folder, train_model
    from sottovoce.experiments.without_data import PublicParts, public_parts
    from sottovoce.experiments.worth import run_and_weigh

__getattr__ = imported_later(
    __name__,
    {
        "agreed": ("agents_of", "agreement", "agreement_on", "members_of"),
        "audit": ("audit_observer", "audits", "describe_audits"),
        "comparison.compare": ("compare",),
        "comparison.file": ("read_comparison", "run_comparison", "write_comparison"),
        "comparison.result": ("Comparison", "Row", "aligned"),
        "demo": ("Demonstration", "run_demo"),
        "designing": ("DesignedFile", "SchemeRow", "design_file"),
        "gradients": ("PERCENTILES", "gradient_norms"),
        "joining": ("Joining", "check_line", "prepare_joining", "run_cost", "take_part", "write_own_model"),
        "own_records": ("own_guarantee", "own_problem", "own_sensitivity"),
        "predict": ("model_in", "predict_file", "write_predictions"),
        "rehearsing": ("Outcome", "Rehearsal", "outcome_of", "prepare_rehearsal"),
        "without_data": ("PublicParts", "public_parts"),
        "run": ("default_folder", "final_metrics", "run_experiment"),
        "train": ("Trained", "default_training_folder", "train_model"),
        "worth": ("run_and_weigh",),
    },
)

__all__ = [
    "Config",
    "Experiment",
    "PublicParts",
    "RecommendedSetting",
    "agreement",
    "build",
    "default_folder",
    "final_metrics",
    "guarantees",
    "load",
    "load_model",
    "own_guarantee",
    "own_problem",
    "own_sensitivity",
    "parse",
    "public_parts",
    "read",
    "recommended_setting",
    "run_experiment",
    "save",
    "simulate",
]


def __dir__() -> list[str]:
    return [*__all__]
