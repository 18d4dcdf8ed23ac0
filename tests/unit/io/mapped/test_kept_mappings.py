"""How many files stay mapped, and which."""

from __future__ import annotations

import weakref

from logdex.io.mapped.kept_mappings import KeptMappings


class _File:
    was_used = False
    is_mapped = True

    def unmap(self) -> None:
        self.is_mapped = False


def test_what_was_not_used_for_the_longest_time_is_unmapped() -> None:
    kept, files = KeptMappings(mapped_max=3), [_File() for _ in range(5)]
    for file in files[:3]:
        kept.add(file)
    files[0].was_used = True
    kept.add(files[3])
    kept.add(files[4])
    assert [file.is_mapped for file in files] == [True, False, False, True, True]
    kept.forget(files[0])
    files[1].is_mapped = True
    kept.add(files[1])
    assert [file.is_mapped for file in files] == [True, True, False, True, True]


def test_the_oldest_is_unmapped_if_all_are_used_all_the_time() -> None:
    class Busy(_File):
        was_used = property(lambda self: True, lambda self, value: None)

    kept, files = KeptMappings(mapped_max=2), [Busy() for _ in range(3)]
    for file in files:
        kept.add(file)
    assert sum(file.is_mapped for file in files) == 2


def test_a_file_that_nobody_refers_to_is_not_kept_alive() -> None:
    kept, file = KeptMappings(mapped_max=1), _File()
    kept.add(file)
    reference = weakref.ref(file)
    del file
    assert reference() is None
    kept.add(last := _File())
    assert last.is_mapped
