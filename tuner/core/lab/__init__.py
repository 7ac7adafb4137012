"""Published experiments that anybody can repeat: what is run, what the model says of it, what was claimed."""

from tuner.core.lab.experiment import Experiment
from tuner.core.lab.nornir import Nornir

EXPERIMENTS: tuple[Experiment, ...] = (Nornir(),)  #: in the order in which they are told
