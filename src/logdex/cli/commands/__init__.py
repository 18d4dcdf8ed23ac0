"""All commands. Importing this module adds them to the application."""

from __future__ import annotations

from logdex.cli.app import app as app
from logdex.cli.commands import bench as bench
from logdex.cli.commands import cat as cat
from logdex.cli.commands import completion as completion
from logdex.cli.commands import consume as consume
from logdex.cli.commands import convert as convert
from logdex.cli.commands import dispatch as dispatch
from logdex.cli.commands import doctor as doctor
from logdex.cli.commands import export as export
from logdex.cli.commands import filter as filter
from logdex.cli.commands import follow as follow
from logdex.cli.commands import get as get
from logdex.cli.commands import import_tables as import_tables
from logdex.cli.commands import info as info
from logdex.cli.commands import message as message
from logdex.cli.commands import offsets as offsets
from logdex.cli.commands import put as put
from logdex.cli.commands import query as query
from logdex.cli.commands import rebuild as rebuild
from logdex.cli.commands import recover as recover
from logdex.cli.commands import sql as sql
from logdex.cli.commands import stats as stats
from logdex.cli.commands import verify as verify
from logdex.cli.commands import warm_up as warm_up
