"""The texts of everything that tuner prints with a slug.

`catalogue` says what an entry is. `invalid` has the reasons why a window is invalid; `service`, `host`,
`launch`, `study`, `probes`, `feeders` and `fleet` have the warnings. docs/messages.md is made from them.
"""
