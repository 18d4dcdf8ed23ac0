"""The templates of --format: kcat's letters and escapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.cli.rows.template import compile_template
from logdex.errors import UsageError


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        (r"%k\t%v\n", "<k>\t<v>\n"),
        (r"100%% of %k", "100% of <k>"),
        (r"\x41\x0a\\n\r\0\e", "A\n\\n\r\0\x1b"),
        ("%%k %%%k", "%k %<k>"),
        ("a\nb", "a\nb"),
        ("name\udcfe", "name\\udcfe"),
    ],
)
def test_fill(template: str, text: str) -> None:
    assert compile_template(template, "kv")(lambda letter: f"<{letter}>") == text


@pytest.mark.parametrize("template", ["%x", "%", "abc\\", r"\q", r"\x8", r"\xff", r"\x4", "% k", "%\n"])
def test_what_is_no_template_is_a_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="--format has no"):
        compile_template(template, "kv")


@given(st.text(st.characters(codec=None, categories=None)), st.text())
def test_any_text_is_a_template_or_a_usage_error(template: str, value: str) -> None:
    try:
        fill = compile_template(template, "kvs")
    except UsageError:
        return
    fill(lambda _: value).encode()
