"""Changes of a log, when they are refused, and how they are undone.

`plans` and `apply_changes` are plans and their application through the journal. `refusals` and `policy_rules` say
when a partition must not be changed, such as a tiered partition.
"""
