"""The controlled study: next layout, launch, warm-up, window, store, decision. Uses ports only.

Commands call ``run_study`` (run.py) for a new study and for an interrupted one: windows in the store are not
measured again.
"""
