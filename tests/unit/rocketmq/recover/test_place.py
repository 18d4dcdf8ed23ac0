"""Where pieces, placeholders and fillers go in the new log, and what the report says of each
range."""

from __future__ import annotations

from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.recover.place import Fill, NewLog, place
from logdex.rocketmq.recover.whole_pieces import Dropped, Piece, ScannedFile

SIZE = 1000


def scanned(number: int, *spans: tuple[int, int], size: int = SIZE, filler_at: int | None = None) -> ScannedFile:
    """A file with one message of 100 bytes or more per span; what lies between them is damaged."""
    start = number * SIZE
    pieces = [Piece(low, high, 1, low, start + low, start + low) for low, high in spans]
    edges = [0, *(edge for span in spans for edge in span), size if filler_at is None else filler_at]
    dropped = [Dropped(*gap, "damage") for gap in zip(edges[::2], edges[1::2], strict=True) if gap[0] < gap[1]]
    return ScannedFile(f"f{number}", start, CommitLogFile(f"f{number}", start, size), pieces, dropped, filler_at)


def missing(number: int) -> ScannedFile:
    return ScannedFile(f"f{number}", number * SIZE)


def placed(*files: ScannedFile) -> NewLog:
    return place(list(files), SIZE, lambda file, piece: piece.end - piece.start)


def told(log: NewLog) -> list[tuple[str, int, int, int, bool]]:
    return [(each.path, each.start, each.end, each.placeholders, each.is_loss) for each in log.skipped]


LAST = scanned(9, (0, 200), filler_at=200)


def test_ranges_between_messages_are_filled_with_the_time_of_the_one_before() -> None:
    log = placed(scanned(0, (100, 300), (500, 700), filler_at=700), scanned(1, (0, 900), size=900))
    assert log.files[0].fills == [Fill(0, 100, 100), Fill(300, 500, 100)]
    assert (log.files[0].filler_at, log.files[1].filler_at) == (700, None)
    assert told(log) == [("f0", 0, 100, 1, True), ("f0", 300, 500, 1, True)]
    assert log.end_offset == 1900


def test_the_log_ends_behind_its_last_message() -> None:
    log = placed(scanned(0, (0, 300)), ScannedFile("f1", SIZE, CommitLogFile("f1", SIZE, SIZE)))
    assert (len(log.files), log.end_offset, log.files[0].fills) == (1, 300, [])
    assert told(log) == [("f0", 300, 1000, 0, True)]


def test_a_filler_behind_the_last_message_stays() -> None:
    log = placed(scanned(0, (0, 300), filler_at=300))
    assert (log.end_offset, log.files[0].filler_at) == (SIZE, 300)
    log = placed(scanned(0, (0, 300), filler_at=600))
    assert (log.end_offset, log.files[0].filler_at) == (300, None)


def test_the_end_of_a_file_in_the_middle() -> None:
    log = placed(scanned(0, (0, 300)), scanned(1, (0, 901)), scanned(2, (0, 900)), scanned(3, (0, 995)), LAST)
    assert log.files[0].fills == [Fill(300, 992, 0)]
    assert [file.filler_at for file in log.files[:4]] == [992, 901, 992, None]
    assert told(log)[:2] == [("f0", 300, 1000, 1, True), ("f1", 901, 1000, 0, False)]


def test_a_filler_that_is_found_behind_damage() -> None:
    log = placed(scanned(0, (0, 300), filler_at=600), scanned(1, (0, 300), filler_at=350), LAST)
    assert (log.files[0].fills, log.files[0].filler_at) == ([Fill(300, 600, 0)], 600)
    assert (log.files[1].fills, log.files[1].filler_at) == ([], 300)
    assert told(log) == [("f0", 300, 600, 1, True), ("f1", 300, 350, 0, True)]


def test_missing_and_short_files() -> None:
    log = placed(scanned(0, (0, 300), filler_at=300), missing(1), scanned(2, (0, 300), size=300), LAST)
    assert log.files[1].fills == [Fill(0, 992, 0)]
    assert log.files[2].fills == [Fill(300, 992, 2000)]
    assert told(log) == [("f1", 0, 1000, 1, True), ("f2", 300, 1000, 1, True)]


def test_a_file_that_is_cut_behind_its_filler_lost_nothing() -> None:
    assert told(placed(scanned(0, (0, 300), size=308, filler_at=300), LAST)) == []


def test_a_range_too_short_for_a_placeholder_takes_the_next_message_with_it() -> None:
    log = placed(scanned(0, (0, 200), (250, 450), (450, 600), filler_at=600), LAST)
    assert log.files[0].fills == [Fill(200, 450, 0)]
    assert [(piece.start, piece.end) for piece in log.files[0].pieces] == [(0, 200), (450, 600)]
    assert told(log) == [("f0", 200, 250, 1, True), ("f0", 250, 450, 0, True)]
    assert "leaves no room" in log.skipped[1].why


def test_no_message_at_all() -> None:
    log = placed(scanned(0), scanned(1))
    assert (len(log.files), log.end_offset, log.files[0].fills) == (1, 0, [])
    assert told(log) == [("f0", 0, 1000, 0, True), ("f1", 0, 1000, 0, True)]


def test_zeros_are_a_loss_only_inside_the_log() -> None:
    hole = ScannedFile("f0", 0, CommitLogFile("f0", 0, SIZE), [], [Dropped(0, SIZE, "zeros", is_zero=True)])
    assert told(placed(hole, LAST)) == [("f0", 0, 1000, 1, True)]
    assert told(placed(hole)) == []
