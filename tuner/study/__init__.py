"""The controlled study: next layout, launch, warm-up, window, store, decision. Uses ports only.

``run_study`` (run.py) is what a command calls, for a new study and for one that was cut off alike: what the
store holds is not measured again.
"""
