"""How long master and slave wait for each other. Source: MessageStoreConfig."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HATiming:
    """Times in seconds, with the broker's defaults where it has them."""

    heartbeat_s: float = 5.0
    """How often a slave repeats its report, and a master that has nothing to send says so
    (haSendHeartbeatInterval)."""
    idle_s: float = 20.0
    """How long a connection is kept on which nothing whole comes (haHousekeepingInterval)."""
    connect_s: float = 5.0
    """How long a slave waits until it is connected."""
    retry_s: float = 0.1
    """The pause before a slave connects again. It doubles with each failure."""
    retry_max_s: float = 5.0
    """The longest such pause."""
