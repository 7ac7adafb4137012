"""The errors that users read: a problem, and what to do about it."""


class TunerError(Exception):
    """One thing that stops a command, told in one line, with a hint what to type next.

    Only ``tuner.cli.main`` prints it. ``exit_code`` is the process's exit code.
    """

    exit_code = 2

    def __init__(self, problem: str, *, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem  #: what is wrong, with the value that is
        self.hint = hint  #: what to do about it, or None when the problem says it


class ConfigError(TunerError):
    """Input or environment that tuner cannot work with (exit code 2)."""


class MissingToolError(ConfigError):
    """A program or package that is needed, and is not installed here (exit code 2)."""


class MeasurementError(TunerError):
    """A launch or window that could not be measured; the study goes on without it (3 when none could)."""

    exit_code = 3


class SourceAway(MeasurementError):
    """What supplies the service is gone for now (a broker that is restarted): no fault of the layout."""


class StaleReport(TunerError):
    """A runbook or a choice that no longer matches the study (exit code 4)."""

    exit_code = 4
