"""Hosts as RocketMQ stores them: 4 or 16 address bytes, then the port in 4 bytes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """An address (4 or 16 bytes) and a port. `str()` returns ``1.2.3.4:10911`` or
    ``[::1]:10911``."""

    address: bytes
    port: int

    @property
    def is_v6(self) -> bool:
        """Whether the address is IPv6 (16 bytes)."""
        return len(self.address) == 16

    def __str__(self) -> str:
        text = str(ipaddress.ip_address(self.address))
        return f"[{text}]:{self.port}" if self.is_v6 else f"{text}:{self.port}"

    def pack(self) -> bytes:
        """The stored form: 8 or 20 bytes."""
        return self.address + self.port.to_bytes(4, "big", signed=True)

    @staticmethod
    def unpack(data: bytes | memoryview) -> Host:
        """Decodes 8 or 20 stored bytes."""
        return Host(bytes(data[:-4]), int.from_bytes(data[-4:], "big", signed=True))

    @staticmethod
    def parse(text: str) -> Host:
        """Parses ``1.2.3.4:10911`` or ``[::1]:10911``. Raises `ValueError` for anything else."""
        address, _, port = text.rpartition(":")
        return Host(ipaddress.ip_address(address.strip("[]")).packed, int(port))
