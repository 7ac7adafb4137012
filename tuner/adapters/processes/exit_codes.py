"""What the exit code of a program that tuner ran means, in words."""


def ending_in_words(code: int, *, ended: str = "failed") -> str:
    """How a program ended, to follow its name: "was killed by signal 9", or *ended* "with exit code 2".

    *code* is as :class:`subprocess.Popen` has it: below 0 it is a signal's number.
    """
    return f"was killed by signal {-code}" if code < 0 else f"{ended} with exit code {code}"
