"""`groups`: the groups of consumers with their offsets, lag and members, and the history of their commits.

`describe.py` makes a group's description from the state that a coordinator would have, and says when its offsets
expire. `history.py` follows the commits and judges each step back.
"""
