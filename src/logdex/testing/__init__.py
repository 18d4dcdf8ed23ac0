"""The tools that Logdex is tested with, shipped so that others can test against it.

`fault_env` injects faults and kills; `bad_sectors` simulates sectors that the disk cannot read;
`store_builder` builds small stores; `strategies` and `kafka_strategies` generate values (they need
Hypothesis).
"""

from logdex.testing.bad_sectors import BadSectorsEnv
from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed

__all__ = ["CHANGES", "BadSectorsEnv", "Fault", "FaultEnv", "Killed"]
