"""`doctor`: how a broker stopped, what it will do at its next start, what is wrong, and the next commands.

`examination.py` puts the parts together: the findings of `verify`, the plans of `recover --like-broker`, and a
list of what the broker will do, in its order. `commands.py` takes the commands out of next steps, and says
which can be undone. `broker_pages.py` finds lines of a broker's log by the pages of docs/broker-messages.
"""
