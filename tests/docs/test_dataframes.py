"""The guide to logs as DataFrames: every block runs, in order, and prints the lines that the page
shows; the tables of options and columns have all that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.convert.columns import kafka as kafka_columns
from logdex.convert.columns import rocketmq as rocketmq_columns
from logdex.spark.sources.kafka import table as kafka
from logdex.spark.sources.options import format_settings
from logdex.spark.sources.rocketmq import table as rocketmq
from tests.docs.pages import SERVED, run_page, unpack_all
from tests.golden.archives import ROOT

GUIDE = ROOT / "docs" / "guide"
PAGE = GUIDE / "dataframes.md"
OF_THE_BROKER = (
    {"path", "paths", "kafka.isolation.level"} | {*format_settings(rocketmq.FORMAT)} | {*format_settings(kafka.FORMAT)}
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("page", ["dataframes.md", "streams.md", "clusters.md"])
def test_every_block_runs_and_prints_what_the_page_shows(page: str, served: bool, tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(GUIDE / page, tmp_path, served=served)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.spark
def test_a_pipeline(tmp_path: Path) -> None:
    """It runs in processes of its own, each with a Spark Connect server."""
    for package in ("grpc", "grpc_status", "google.rpc", "zstandard", "yaml"):
        pytest.importorskip(package, reason="needs pip install 'pyspark[pipelines]'")
    unpack_all(tmp_path)
    run_page(GUIDE / "pipelines.md", tmp_path)


def test_every_option_and_column_is_there() -> None:
    text = PAGE.read_text("utf-8")
    names = [*rocketmq.OPTIONS, *kafka.OPTIONS, *rocketmq_columns.NAMES, *kafka_columns.NAMES]
    assert [name for name in names if f"`{name}`" not in text and name not in OF_THE_BROKER] == []
