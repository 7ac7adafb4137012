"""Published experiments that tuner can repeat: programs, model and claims of each."""

from tuner.lab.experiments.experiment import Experiment
from tuner.lab.experiments.gnocchi import Gnocchi
from tuner.lab.experiments.gornir import Gornir
from tuner.lab.experiments.nornir import Nornir
from tuner.lab.experiments.pi_pools import PiPools
from tuner.lab.experiments.socorro import Socorro

#: in the order of the report
EXPERIMENTS: tuple[Experiment, ...] = (Socorro(), Nornir(), Gornir(), Gnocchi(), PiPools())
