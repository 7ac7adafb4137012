"""The controlled study: next layout, launch, warm up, window, store, decide. Speaks to ports only.

``run_study`` is what a command calls, for a new study and for one that was cut off alike: what the store
holds is not measured again.
"""

from tuner.study.launch.outcome import StudyOutcome
from tuner.study.replay_store import Recalled, recalled
from tuner.study.run import run_study
from tuner.study.timetable import check_budget

__all__ = ["Recalled", "StudyOutcome", "check_budget", "recalled", "run_study"]
