"""What the lab takes: up to its limits, and not one more."""

from pathlib import Path

import pytest

from posattn.errors import PosattnError
from posattn.lab import limits
from posattn.lab.limits import program_text, real, typed_words, uploaded_path, whole


@pytest.mark.parametrize("text", ["3 1 2", "3,1,2", " 3;1 ;\n2\t", "3, 1, 2,"])
def test_numbers_are_parted_by_spaces_commas_and_semicolons(text: str) -> None:
    assert typed_words(text) == ["3", "1", "2"]


def test_64_numbers_are_taken_and_65_are_not() -> None:
    assert len(typed_words("1 " * 64)) == 64
    with pytest.raises(PosattnError, match="65 numbers were typed: the lab takes at most 64"):
        typed_words("1 " * 65)


@pytest.mark.parametrize("wrong", ["", " ,; ", None, 3, ["1"], "9" * 65])
def test_what_is_not_numbers_is_explained(wrong: object) -> None:
    with pytest.raises(PosattnError, match=r"type some|not text|at most 64"):
        typed_words(wrong)


def test_a_program_has_at_most_64_kilobytes() -> None:
    assert program_text("é" * 32 * 1024) == "é" * 32 * 1024
    with pytest.raises(PosattnError, match=r"65,538 bytes: the lab takes at most 65,536"):
        program_text("é" * (32 * 1024 + 1))


def test_parentheses_are_at_most_32_deep_however_many_there_are() -> None:
    assert program_text("(" * 32 + ")" * 32 + "()" * 1000)
    with pytest.raises(PosattnError, match="parentheses are 33 deep"):
        program_text("[" * 33)


@pytest.mark.parametrize("wrong", [0, 11, 1.5, "x", None, float("nan"), float("inf"), 10**400, [], True + 10])
def test_a_whole_number_is_within_its_range(wrong: object) -> None:
    assert whole("n", "3", least=1, most=10) == 3
    with pytest.raises(PosattnError, match=r"n: .*(number|range)"):
        whole("n", wrong, least=1, most=10)


def test_a_number_reaches_its_bounds() -> None:
    assert [real("c", value, least=1, most=1000) for value in (1, 1000)] == [1, 1000]


def test_only_files_below_the_folder_count_as_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, outside = tmp_path / "uploads", tmp_path / "secret"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "file").write_text("12345")
    outside.write_text("secret")
    (folder / "link").symlink_to(outside)
    assert uploaded_path(str(folder), {"path": str(folder / "a" / "file")}) == str((folder / "a" / "file").resolve())
    for path in (
        outside,
        folder / "link",
        folder / ".." / "secret",
        folder,
        folder / "none",
        "\0",
        tmp_path / "uploads2",
    ):
        with pytest.raises(PosattnError, match="was not uploaded here"):
            uploaded_path(str(folder), {"path": str(path)})
    for nothing in (None, {}, "x", {"path": 3}, {"path": ""}):
        with pytest.raises(PosattnError, match="there is no file"):
            uploaded_path(str(folder), nothing)
    monkeypatch.setattr("posattn.lab.limits.MOST_UPLOAD", 4)
    with pytest.raises(PosattnError, match="5 bytes: the lab takes at most 4"):
        uploaded_path(str(folder), {"path": str(folder / "a" / "file")})


def test_the_limits_are_those_that_are_promised() -> None:
    found = (limits.MOST_NUMBERS, limits.MOST_SCALE, limits.MOST_LENGTH, limits.MOST_TEXT, limits.MOST_UPLOAD)
    assert found == (64, 1000, 4096, 65_536, 8 * 2**20)
