"""All commands, joined in one application: importing this module is what makes them known."""

from __future__ import annotations

from logdex.cli import bench as bench
from logdex.cli import cat as cat
from logdex.cli import doctor as doctor
from logdex.cli import get as get
from logdex.cli import info as info
from logdex.cli import message as message
from logdex.cli import query as query
from logdex.cli import rebuild as rebuild
from logdex.cli import recover as recover
from logdex.cli import verify as verify
from logdex.cli.app import app as app
