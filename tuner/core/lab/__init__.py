"""Published experiments that anybody can repeat: what is run, what the model says of it, what was claimed."""

from tuner.core.lab.experiment import Experiment
from tuner.core.lab.gnocchi import Gnocchi
from tuner.core.lab.gornir import Gornir
from tuner.core.lab.nornir import Nornir
from tuner.core.lab.pi_pools import PiPools
from tuner.core.lab.socorro import Socorro

#: in the order in which they are told
EXPERIMENTS: tuple[Experiment, ...] = (Socorro(), Nornir(), Gornir(), Gnocchi(), PiPools())
