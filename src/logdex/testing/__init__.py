"""The tools that Logdex is tested with, shipped so that others can test against it.

`fault_env` injects faults and kills; `store_builder` builds small stores; `strategies` and
`kafka_strategies` generate values (they need Hypothesis).
"""

from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed

__all__ = ["CHANGES", "Fault", "FaultEnv", "Killed"]
