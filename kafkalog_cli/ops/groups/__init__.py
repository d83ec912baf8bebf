"""`groups`: the groups of consumers with their offsets, lag and members, and the history of their commits.

`describe.py` makes a group's description from the state that a coordinator would have. `expiry.py` says when its
offsets expire, and `history.py` follows the commits and judges each step back.
"""
