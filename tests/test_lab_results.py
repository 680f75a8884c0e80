"""Results on disk: found whole or not at all, and never used if something changed them."""

import errno
import hashlib
import json
import logging
import os
import random
from dataclasses import replace

import pytest
import report_results

from halfnet.exceptions import HalfnetError, HalfnetFileError
from halfnet.lab import _results, specs
from halfnet.lab.specs import Score

TABLE = specs.paper().table("mnist")
MADE = report_results.result(TABLE, TABLE.row("k=4"), epochs=2)
RESULT = replace(MADE, architecture=json.loads(json.dumps(MADE.architecture)))  # tuples are lists


@pytest.fixture
def path(tmp_path):
    return _results.save(RESULT, tmp_path)


def signed(content):
    """Return a file's bytes with the digest that its content should have."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}).encode()


def content_of(path):
    content = json.loads(path.read_text())
    del content["sha256"]
    return content


def test_what_is_saved_is_read(path, tmp_path):
    assert path == tmp_path / "paper" / "mnist" / "k=4.json"
    found = _results.read(path)
    assert found == RESULT
    assert found.epochs == 2
    assert found.seeds == (0, 1, 2, 3, 4)
    assert list(_results.read_all(tmp_path)) == [found]
    assert [entry.name for entry in path.parent.iterdir()] == ["k=4.json"]  # nothing half-written


def test_the_file_is_small_and_made_for_eyes_and_diffs(path):
    lines = path.read_text().splitlines()
    assert ' "seeds": [ 0, 1, 2, 3, 4 ],' in lines
    assert len(path.read_text()) < 20_000
    written = path.read_bytes()
    assert _results.save(_results.read(path), path.parents[2]).read_bytes() == written


def test_scores_are_means_and_sample_deviations():
    assert _results.score((1.0, 2.0, 6.0)) == pytest.approx(Score(3.0, 7**0.5))
    assert _results.score((4.0,)) == Score(4.0, 0.0)
    assert RESULT.train_score == _results.score(RESULT.train)
    assert RESULT.test_score == _results.score(RESULT.test)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("u, u0", "u-u0"),
        ("Full-Half k=8", "Full-Half-k=8"),
        ("../../etc", "etc"),
        ("..", "row"),
        ("größer", "größer"),
    ],
)
def test_files_are_named_by_rows(row, name, tmp_path):
    assert _results.slug(row) == name
    assert _results.place(tmp_path, "p", "t", row) == tmp_path / "p" / "t" / f"{name}.json"


# -- damage ---------------------------------------------------------------------------------------


def test_no_changed_byte_goes_unnoticed(path):
    whole = path.read_bytes()
    places = random.Random(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[places.randrange(len(whole))] ^= 1 << places.randrange(8)
        path.write_bytes(damaged)
        try:
            found = _results.read(path)
        except HalfnetFileError as error:
            message = str(error)
            assert message.startswith(f"{path}: ")
            assert "\n" not in message
        else:
            assert found == RESULT  # white space, which says nothing


def test_a_result_of_another_format_is_left_where_it_is(path):
    """Another halfnet can read it."""
    path.write_bytes(signed({"format": 2}))
    with pytest.raises(HalfnetError, match="expected a result of format 1, got format 2"):
        _results.read_or_set_aside(path)
    assert path.exists()


def test_files_set_aside_do_not_replace_each_other(path):
    for content in (b"1", b"2", b"3"):
        path.write_bytes(content)
        assert _results.read_or_set_aside(path) is None
    asides = sorted(path.parent.glob("*.corrupt*"))
    assert [aside.read_bytes() for aside in asides] == [b"1", b"2", b"3"]


def test_no_shortened_file_is_read(path):
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:length])
        with pytest.raises(HalfnetFileError, match="expected a result as JSON"):
            _results.read(path)


def test_an_edited_number_is_noticed(path):
    path.write_text(path.read_text().replace('"threads": 1', '"threads": 2'))
    with pytest.raises(HalfnetFileError, match="was damaged or edited"):
        _results.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "a result of format 1"),
        (b"{}", "a result of format 1"),
        (signed({"format": 1}), "the fields of a result"),
        (b'{"format": 1, "seconds": NaN}', "a result as JSON"),
        (b"[" * 100_000, "a result as JSON"),
        (b"\xff\xfe\x00", "a result as JSON"),
        (b'{"format": 1, "params": ' + b"9" * 5000 + b"}", "a result as JSON"),
    ],
)
def test_what_is_no_result_is_said_to_be_none(content, message, path):
    path.write_bytes(content)
    with pytest.raises(HalfnetFileError, match=message):
        _results.read(path)


def test_fields_too_many_are_too_many(path):
    path.write_bytes(signed(content_of(path)))
    assert _results.read(path) == RESULT
    path.write_bytes(signed({**content_of(path), "more": 1}))
    with pytest.raises(HalfnetFileError, match="the fields of a result"):
        _results.read(path)


def test_a_bad_file_is_named_and_kept_aside(path, caplog):
    path.write_text("no JSON")
    assert list(_results.read_all(path.parents[2])) == []
    assert not path.exists()
    assert path.with_name("k=4.json.corrupt").read_text() == "no JSON"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(path) in record.getMessage()
    assert record.getMessage().endswith("kept as k=4.json.corrupt")
    assert _results.read_or_set_aside(path) is None


# -- files that cannot be read or written ---------------------------------------------------------


def refuse(number):
    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    return refused


def test_a_full_disk_keeps_the_old_file(path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_bytes", refuse(errno.ENOSPC))
    with pytest.raises(HalfnetError, match=rf"cannot write {path}: No space left"):
        _results.save(RESULT, path.parents[2])
    assert _results.read(path) == RESULT
    assert len(list(path.parent.iterdir())) == 1


def test_a_write_that_breaks_off_leaves_no_litter(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _results.write_atomically(path, b"new")
    assert _results.read(path) == RESULT
    assert len(list(path.parent.iterdir())) == 1


def test_a_file_that_cannot_be_read_is_not_set_aside(path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.read_bytes", refuse(errno.EACCES))
    with pytest.raises(HalfnetError, match=rf"cannot read {path}: Permission denied"):
        _results.read_or_set_aside(path)
    assert path.exists()


def test_a_bad_file_that_cannot_be_moved_is_not_used(path, monkeypatch):
    path.write_text("no JSON")
    monkeypatch.setattr(os, "replace", refuse(errno.EROFS))
    with pytest.raises(HalfnetError, match=rf"cannot move {path} aside: Read-only file system"):
        _results.read_or_set_aside(path)


def test_a_folder_is_tried_before_the_work(path, monkeypatch, tmp_path):
    new = tmp_path / "a" / "b"
    _results.check_writable(new)
    assert list(new.iterdir()) == []
    with pytest.raises(HalfnetError, match=rf"cannot write to {path}: File exists"):
        _results.check_writable(path)
    monkeypatch.setattr(_results, "TemporaryFile", refuse(errno.EACCES))
    with pytest.raises(HalfnetError, match=rf"cannot write to {new}: Permission denied"):
        _results.check_writable(new)
