"""The wiring: which adapters serve which settings. The one place that knows them all.

Adapters are imported where they are wired, so that a command pays for its own only. What `tuner doctor` needs
is imported by that command: `tuner.bootstrap.doctor`.
"""

from tuner.bootstrap.answers import explained, live_now, overview, ranked, recalled, study_stamp
from tuner.bootstrap.asked import (
    another_stream,
    check_same_box,
    check_same_profile,
    planned,
    profile_kept,
    settings_kept,
)
from tuner.bootstrap.beginning import beginning, beginning_grown, first_look_shown
from tuner.bootstrap.boxes import simulated_box, this_box
from tuner.bootstrap.comparing import compared
from tuner.bootstrap.configs import described_service, described_services, settings_of, written_config
from tuner.bootstrap.fleet import first_box, fleet_of
from tuner.bootstrap.lab import LabAsked, experiment_named, experiments, lab_run
from tuner.bootstrap.lab_typed import lab_command
from tuner.bootstrap.loading import with_clients_found
from tuner.bootstrap.metrics import Metrics, MetricsAsked, metrics_asked, metrics_shown
from tuner.bootstrap.model import calibrated, calibrated_variants, foretold, simulated_layouts, write_profile
from tuner.bootstrap.production import in_production, starts_of
from tuner.bootstrap.pythons import pythons_asked
from tuner.bootstrap.rollouts import rollout
from tuner.bootstrap.samples import sampled
from tuner.bootstrap.serving import Served, studies_served
from tuner.bootstrap.showing import begun, drawn, live_file, showing, showing_fleet, takes_unicode
from tuner.bootstrap.start_files import config_from_file
from tuner.bootstrap.stores import new_store, open_store

__all__ = [
    "LabAsked",
    "Metrics",
    "MetricsAsked",
    "Served",
    "another_stream",
    "beginning",
    "beginning_grown",
    "begun",
    "calibrated",
    "calibrated_variants",
    "check_same_box",
    "check_same_profile",
    "compared",
    "config_from_file",
    "described_service",
    "described_services",
    "drawn",
    "experiment_named",
    "experiments",
    "explained",
    "first_box",
    "first_look_shown",
    "fleet_of",
    "foretold",
    "in_production",
    "lab_command",
    "lab_run",
    "live_file",
    "live_now",
    "metrics_asked",
    "metrics_shown",
    "new_store",
    "open_store",
    "overview",
    "planned",
    "profile_kept",
    "pythons_asked",
    "ranked",
    "recalled",
    "rollout",
    "sampled",
    "settings_kept",
    "settings_of",
    "showing",
    "showing_fleet",
    "simulated_box",
    "simulated_layouts",
    "starts_of",
    "studies_served",
    "study_stamp",
    "takes_unicode",
    "this_box",
    "with_clients_found",
    "write_profile",
    "written_config",
]
