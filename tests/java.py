"""How the Java programs of tests are started: each lives for one test."""

from __future__ import annotations

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""No optimising compiler, for these programs end before it would pay, and no verification of classes
that come in released jars: half the seconds of a start."""
