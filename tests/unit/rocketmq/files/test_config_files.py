from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from logdex.errors import CorruptError
from logdex.rocketmq.files.config_files import ConsumerOffsets, DelayOffsets, SubscriptionGroups, TopicConfigs
from logdex.rocketmq.files.config_json import parse_config_json
from logdex.rocketmq.settings.broker_conf import BrokerConf, parse_properties_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:123,-1:2}", {0: 123, -1: 2}),
        ("{a:1,,'b':'x\\'y',}", {"a": 1, "b": "x'y"}),
        ('{"0":[1,2,],x:null}', {"0": [1, 2], "x": None}),
        ("/*c*/{//d\n a : true}", {"a": True}),
        ("{a:1.5,b:12L,c:-2e3}", {"a": 1.5, "b": 12, "c": -2000.0}),
        ('{"\\u00e9\\ud83c\\udf63\\x41\\n":"\\\\"}', {"é🍣A\n": "\\"}),
        ("\ufeff{}", {}),
    ],
)
def test_what_the_brokers_library_writes_and_lets_pass(text: str, value: object) -> None:
    assert parse_config_json(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0), ("[]", 0), ("{", 1), ("{a", 2), ("{a:}", 3), ("{a:1 b:2}", 5), ('{"é":tru}', 6), ("{a:1}x", 5),
        ('{"a', 1), ("{a:" * 65, 192), ("{a:" + "[" * 10_000, 66), ("{" + "9" * 65 + ":1}", 1),
        ("{a:" + "1" * 5000 + "}", 3),
        ("{a:0x10}", 3), ("{a:1e999}", 3), ("{a:NaN}", 3), ("{a:1}\0x", 5), ("{a:" + "{" * 10_000, 66),
    ],
)  # fmt: skip
def test_malformed_text_is_located(text: str, position: int) -> None:
    with pytest.raises(CorruptError) as caught:
        parse_config_json(text.encode(), path="f")
    assert (caught.value.path, caught.value.position) == ("f", position)


def test_offsets_topics_and_groups(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_bytes(b'{"offsetTable":{"%RETRY%G@G":{0:7,"1":8}, "T\xff@H":{}}}')
    (tmp_path / "delayOffset.json").write_text('{"offsetTable":{1:67,2:32}}')
    (tmp_path / "topics.json").write_text('{"topicConfigTable":{"T":{"readQueueNums":4,"perm":6,"novel":[1]}}}')
    (tmp_path / "subscriptionGroup.json").write_text('{"subscriptionGroupTable":{"G":{"retryMaxTimes":16}}}')
    offsets = ConsumerOffsets.read(str(tmp_path)).offsets
    assert offsets == {(b"%RETRY%G", b"G"): {0: 7, 1: 8}, (b"T\xff", b"H"): {}}
    assert DelayOffsets.read(str(tmp_path)).offsets == {1: 67, 2: 32}
    topic = TopicConfigs.read(str(tmp_path)).topics[b"T"]
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.raw["novel"]) == (4, 16, 6, [1])
    assert SubscriptionGroups.read(str(tmp_path)).groups == {b"G": {"retryMaxTimes": 16}}


@pytest.mark.parametrize("first", [None, b"", b'{"offsetTable":{1:', b'{"offsetTable":{1:[2]}}', b'{"offsetTable":3}'])
def test_the_backup_stands_in(tmp_path: Path, first: bytes | None) -> None:
    if first is not None:
        (tmp_path / "delayOffset.json").write_bytes(first)
    assert first or DelayOffsets.read(str(tmp_path)).offsets == {}
    (tmp_path / "delayOffset.json.bak").write_text('{"offsetTable":{3:4}}')
    read = DelayOffsets.read(str(tmp_path))
    assert read.offsets == {3: 4}
    assert (read.file.problem is not None) == bool(first)
    assert str(read.file.remark).endswith(f"read {tmp_path}/delayOffset.json.bak instead")
    (tmp_path / "delayOffset.json.bak").write_text("")
    if first:
        with pytest.raises(CorruptError, match=r"delayOffset\.json: .*move it and its \.bak away"):
            DelayOffsets.read(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        *("{offsetTable:[]}", "{offsetTable:{x:1}}", "{offsetTable:{1:true}}", '{offsetTable:{1:" 1"}}'),
        *("{offsetTable:{1:9223372036854775808}}", "{offsetTable:{2147483648:1}}"),
    ],
)
def test_values_of_the_wrong_type_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "delayOffset.json").write_text(text)
    with pytest.raises(CorruptError, match="offsetTable"):
        DelayOffsets.read(str(tmp_path))


def test_numbers_are_those_that_the_broker_takes_them_for(tmp_path: Path) -> None:
    """Both versions of its library read quoted numbers, and cut fractions off."""
    (tmp_path / "delayOffset.json").write_text('{offsetTable:{"1":"12",2:7.0,3:-1.5}}')
    assert DelayOffsets.read(str(tmp_path)).offsets == {1: 12, 2: 7, 3: -1}
    (tmp_path / "topics.json").write_text('{topicConfigTable:{T:{"writeQueueNums":"8","readQueueNums":4.0}}}')
    topic = TopicConfigs.read(str(tmp_path)).topics[b"T"]
    assert (topic.write_queue_nums, topic.read_queue_nums) == (8, 4)
    (tmp_path / "topics.json").write_text('{topicConfigTable:{T:{"writeQueueNums":null,"readQueueNums":4}}}')
    topic = TopicConfigs.read(str(tmp_path)).topics[b"T"]
    assert (topic.write_queue_nums, topic.read_queue_nums) == (16, 4)


def test_zeros_behind_the_object_are_passed_over() -> None:
    assert parse_config_json(b'{"a":1}\n' + bytes(100)) == {"a": 1}
    with pytest.raises(CorruptError):
        parse_config_json(bytes(100))


def test_a_long_name_is_not_in_the_error_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"' + "T" * 100_000 + '@G":[]}}')
    with pytest.raises(CorruptError, match="offsetTable") as caught:
        ConsumerOffsets.read(str(tmp_path))
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_string_of_escapes_takes_little_memory(quote: str) -> None:
    text = "{" + quote + "\\n" * 20_000 + quote + ":1}"
    tracemalloc.start()
    try:
        assert parse_config_json(text.encode()) == {"\n" * 20_000: 1}
        assert tracemalloc.get_traced_memory()[1] < 1.5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("nums", ["99999999999999999999", "2147483648", '"2147483648"', '"x"', "true"])
def test_numbers_of_queues_that_java_does_not_hold(tmp_path: Path, nums: str) -> None:
    (tmp_path / "topics.json").write_text(f'{{topicConfigTable:{{"T":{{"writeQueueNums":{nums}}}}}}}')
    with pytest.raises(CorruptError, match="writeQueueNums"):
        TopicConfigs.read(str(tmp_path))


def test_properties_as_java_reads_them() -> None:
    text = "# c\n! d\n\n a=1\nb : two\\\n   lines\nc\td e\nk\\=ey=\\u0041\\tx\nempty\na = 2\\\\\nlast=x\\"
    assert parse_properties_text(text) == {
        "a": "2\\", "b": "twolines", "c": "d e", "k=ey": "A\tx", "empty": "", "last": "x",
    }  # fmt: skip


def test_broker_conf(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("mappedFileSizeCommitLog = 65536\nmaxIndexNum=500\nstorePathRootDir=/s\nmessageDelayLevel=1s 2s\n")
    conf = BrokerConf.read(str(path))
    assert conf.sizes == {"mappedFileSizeCommitLog": 65536, "maxIndexNum": 500}
    assert (conf.properties["storePathRootDir"], conf.message_delay_level) == ("/s", "1s 2s")
    path.write_text("x=1\nmaxIndexNum=many\n")
    with pytest.raises(CorruptError, match="maxIndexNum") as caught:
        BrokerConf.read(str(path))
    assert caught.value.position == 4
    path.write_text("x=\\u12\n")
    with pytest.raises(CorruptError, match="escape"):
        BrokerConf.read(str(path))
