"""What Logdex is tested with, shipped so that others can test against it.

`fault_env` harms and kills; `store_builder` makes small stores; `strategies` draws values (needs Hypothesis).
"""

from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed

__all__ = ["CHANGES", "Fault", "FaultEnv", "Killed"]
