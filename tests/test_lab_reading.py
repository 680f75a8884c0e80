"""Data of the user's own: what is read, and what is said of data that cannot be."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  slow to import: not within a test
from PIL import Image

from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetValueError
from halfnet.lab import data
from halfnet.lab._image_folder import read_folder, size_from
from halfnet.lab._inputs import Inputs, Layout, classes_of, nearest, numbered
from halfnet.lab._reading import read

ROWS = "width,height,kind\n1,2.5,b\n3,4,a\n\n-5,6e1,b\n7,8,a\n"


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def csv_file(text, name="rows.csv", encoding="utf-8"):
    Path(name).write_bytes(text.encode(encoding))
    return name


def npz(name="arrays.npz", **arrays):
    np.savez(name, **arrays)
    return name


def image(path, size=(3, 2), mode="RGB", colour=7):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def images(folder="images", count=2, **kwargs):
    for name in ("cat", "dog"):
        for number in range(count):
            image(f"{folder}/{name}/{number}.png", **kwargs)
    return folder


def fails(words, source, **kwargs):
    with pytest.raises(HalfnetError) as caught:
        read(source, **kwargs)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def layout_of(source, **kwargs):
    inputs = read(source, **kwargs)
    return Layout.of(inputs, classes_of(inputs.labels))


# --- Names -----------------------------------------------------------------------------------


def test_a_name_is_a_data_set_with_its_part_to_test_on():
    found, digits = read("digits"), data.load("digits")
    np.testing.assert_array_equal(found.x, digits.train_images)
    np.testing.assert_array_equal(found.test.x, digits.test_images)
    assert found.labels.tolist() == digits.train_labels.astype(str).tolist()
    assert (found.brightest, found.pixels) == (16, True)
    layout = Layout.of(found, classes_of(found.labels))
    assert layout.classes == tuple("0123456789")
    np.testing.assert_array_equal(read("digits", layout=layout).x, digits.test_images)


@pytest.mark.parametrize(
    ("name", "near"), [("digit", "digits"), ("DIGITS", "digits"), ("MNIST", "mnist"), ("", "mnist")]
)
def test_an_unknown_name_gets_the_nearest(name, near):
    error = fails(f"unknown data set {name!r}: the nearest name is '{near}', and no file", name)
    assert isinstance(error, HalfnetValueError)


def test_paths_that_cannot_be_data():
    fails("cannot read rows.csv: there is no such file or folder", "rows.csv")
    fails("cannot read no/where: there is no such file or folder", "no/where")
    Path("notes.txt").write_text("a,b\n")
    fails("notes.txt: expected a .csv, a .npz or a folder of images", "notes.txt")


def test_options_of_other_kinds_of_data():
    fails("target: expected none except for a CSV file, got 'kind'", "digits", target="kind")
    fails("size: expected none except for a folder of images", csv_file(ROWS), size="8x8")


def test_the_nearest_name_of_thousands_does_not_list_them():
    with pytest.raises(HalfnetValueError) as caught:
        nearest("column", "Width_999", [f"width_{i}" for i in range(1000)])
    assert str(caught.value) == "unknown column 'Width_999': the nearest name is 'width_999'"


# --- CSV -------------------------------------------------------------------------------------


def test_a_csv_is_its_numbers_and_the_last_column():
    found = read(csv_file(ROWS))
    assert found.x.tolist() == [[1, 2.5], [3, 4], [-5, 60], [7, 8]]
    assert found.x.dtype == np.float32
    assert found.labels.tolist() == ["b", "a", "b", "a"]
    assert (found.columns, found.target) == (("width", "height"), "kind")
    assert not found.pixels


def test_a_csv_with_another_target_a_bom_quotes_spaces_and_windows_line_ends():
    text = '\ufeffkind ,"the width",size\r\nno, 1 ,9\r\n"y\ns",2,9\r\nno,3,9\r\n"y\ns",4,9\r\n'
    found = read(csv_file(text, "ROWS.CSV"), target="kind")
    assert found.labels.tolist() == ["no", "y\ns", "no", "y\ns"]
    assert found.columns == ("the width", "size")
    assert found.x.tolist() == [[1, 9], [2, 9], [3, 9], [4, 9]]


def test_columns_may_be_called_by_whole_numbers():
    found = read(csv_file("0,1,label\n1.5,2,a\n3,4,b\n1,2,a\n3,4,b\n"))
    assert found.columns == ("0", "1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a header of at least two names with commas between, got an empty file"),
        ("a;b;c\n1;2;x\n", "at least two names with commas between, got 'a;b;c'"),
        ("a,b\n", "expected rows below the header, got none"),
        ("a,b\n\n\n", "expected rows below the header, got none"),
        ("1,2,3\n4,5,6\n", "expected a header of column names in line 1, got numbers: '1', ..."),
        ("5.1,3.5,x\n4.9,3.0,y\n", "got numbers: '5.1', ..."),
        ("a,,b\n1,2,x\n", "header: expected a name for column 2, got none"),
        ("a,b,a\n1,2,x\n", "header: expected column 'a' once, got it twice"),
        ("a,b,c\n1,2,x\n1,2\n", "line 3: expected 3 values, got 2"),
        ("a,b,c\n1,2,x\n1,2,y,\n", "line 3: expected 3 values, got 4"),
        ("a,b,c\n1,,x\n", "line 2, column 'b': expected a number, got a missing value"),
        ("a,b,c\n1,2,x\n1,N/A,y\n", "line 3, column 'b': expected a number, got a missing value"),
        ("a,b,c\n1,NaN,x\n", "line 2, column 'b': expected a finite number, got a missing value"),
        ("a,b,c\n1,-inf,x\n", "line 2, column 'b': expected a finite number, got -inf"),
        ("a,b,c\n1,1e39,x\n", "line 2, column 'b': expected a finite number, got 1e+39"),
        ("a,b,c\n1,red,x\n", "line 2, column 'b': expected a number, got text, 'red'"),
        ("a,b,c\n1,2, \n", "line 2, column 'c': expected a class, got a missing value"),
        ("a,b\n1,x\n2,x\n", "column 'b': expected at least two classes, got only 'x'"),
        (
            "a,b\n1,.1\n2,.2\n3,.3\n",
            "column 'b': expected a few classes that repeat, got 3 different ones in 3 rows",
        ),
    ],
)
def test_what_is_wrong_with_a_csv_is_said_with_its_place(text, words):
    error = fails(words, csv_file(text))
    assert isinstance(error, HalfnetFileError)
    assert str(error).startswith("rows.csv: ")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_csv_in_another_encoding(encoding):
    fails("rows.csv: expected CSV in UTF-8: ", csv_file("a,b\n1,é\n", encoding=encoding))


def test_a_csv_that_csv_itself_refuses():
    fails("rows.csv: expected CSV in UTF-8: field larger", csv_file("a,b\n1," + "x" * 200_000))


def test_an_unknown_target():
    error = fails(
        "unknown column 'kinds': the nearest name is 'kind'", csv_file(ROWS), target="kinds"
    )
    assert str(error).startswith("rows.csv: ")


def test_a_csv_for_a_model_has_its_columns_in_any_order_with_labels_or_without():
    layout = layout_of(csv_file(ROWS))
    same = read(csv_file("kind,height,width\nb,2.5,1\n"), layout=layout)
    bare = read(csv_file("height,width\n2.5,1\n"), layout=layout)
    assert same.x.tolist() == bare.x.tolist() == [[1, 2.5]]
    assert same.labels.tolist() == ["b"]
    assert bare.labels is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("width,kind\n1,b\n", "expected the model's 2 columns, got none named 'height'"),
        (
            "width,height,depth\n1,2,3\n",
            "expected the model's 2 columns, got another one named 'de",
        ),
        ("width,height,kind\n1,2,c\n", "unknown class 'c': the nearest name is"),
    ],
)
def test_a_csv_that_does_not_fit_a_model(text, words):
    layout = layout_of(csv_file(ROWS))
    assert str(fails(words, csv_file(text), layout=layout)).startswith("rows.csv: ")


def test_files_that_cannot_be_opened(monkeypatch):
    """Simulated: the tests may be run by root, who may read everything."""
    names = csv_file(ROWS), npz(x=np.ones((4, 2)), y=[0, 1, 0, 1])

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    for name in names:
        assert str(fails("", name)) == f"cannot read {name}: Permission denied"


# --- NPZ -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [("x", "y"), ("train_images", "train_labels"), ("x_train", "y_train")]
)
def test_an_npz_under_its_names(keys):
    x = np.arange(8).reshape(4, 2)
    found = read(npz(**{keys[0]: x, keys[1]: [[3], [10], [3], [10]], "more": 1}))
    assert found.x.tolist() == x.tolist()
    assert found.x.dtype == np.float32
    assert found.labels.tolist() == ["3", "10", "3", "10"]
    assert classes_of(found.labels) == ("3", "10")
    assert found.test is None


def test_uint8_stays_pixels_and_text_labels_stay_text():
    x = np.arange(4 * 6, dtype=np.uint8).reshape(4, 2, 3)
    found = read(npz(x=x, y=["b", "a", "b", "a"]))
    assert found.pixels
    assert found.x.tolist() == x.tolist()
    assert found.labels.tolist() == ["b", "a", "b", "a"]


def test_an_npz_with_a_part_to_test_on():
    name = npz(x=np.ones((4, 2)), y=[0, 1, 0, 1], x_test=np.zeros((1, 2)), y_test=[1])
    found = read(name)
    assert found.test.x.tolist() == [[0, 0]]
    assert found.test.labels.tolist() == ["1"]
    layout = layout_of(name)
    assert read(name, layout=layout).x.tolist() == [[0, 0]]
    alone = npz(test_images=np.zeros((3, 2)))
    assert len(read(alone, layout=layout).x) == 3
    assert read(npz(x=np.ones((2, 2))), layout=layout).labels is None


GOOD = np.ones((4, 2))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": GOOD, "b": GOOD}, "expected arrays x and y, or train_images and train_labels, or"),
        ({"a": GOOD, "b": GOOD}, "got a, b"),
        ({}, "got none"),
        ({"x": GOOD}, "expected labels y beside x, got none"),
        ({"x": GOOD, "y": [1, 2]}, "y: expected a label for each of 4 rows, got (2,)"),
        ({"x": GOOD, "y": [0.0, 1, 0, 1]}, "y: expected integers or text, got float64"),
        ({"x": GOOD, "y": [1, 1, 1, 1]}, "labels: expected at least two classes, got only '1'"),
        ({"x": GOOD, "y": [1, 2, 3, 4]}, "labels: expected a few classes that repeat"),
        ({"x": GOOD.astype(str), "y": [0, 1, 0, 1]}, "x: expected numbers, got <U32"),
        ({"x": GOOD * 1j, "y": [0, 1, 0, 1]}, "x: expected numbers, got complex128"),
        ({"x": np.ones(4), "y": [0, 1, 0, 1]}, "height, width), got shape (4,)"),
        ({"x": np.ones((4, 0)), "y": [0, 1, 0, 1]}, "got shape (4, 0)"),
        (
            {"x": np.ones((4, 8, 8, 3)), "y": [0, 1, 0, 1]},
            "got shape (4, 8, 8, 3); x.transpose(0, 3, 1, 2) puts the channels first",
        ),
        (
            {"x": [[1, 2], [3, np.nan]], "y": [0, 1]},
            "x: expected finite numbers, got nan at [1, 1]",
        ),
        ({"x": GOOD * 1e39, "y": [0, 1, 0, 1]}, "x: expected finite numbers, got inf at [0, 0]"),
        (
            {"x": GOOD, "y": [0, 1, 0, 1], "x_test": np.ones((1, 3)), "y_test": [0]},
            "expected inputs to test on like those to learn from, float32 of shape (2,), got "
            "float32 of shape (3,)",
        ),
        (
            {"x": GOOD, "y": [0, 1, 0, 1], "x_test": GOOD.astype("u1"), "y_test": [0, 1, 0, 1]},
            "got uint8 of shape (2,)",
        ),
        (
            {"x": GOOD, "y": [0, 1, 0, 1], "x_test": GOOD, "y_test": [0, 1, 0, 2]},
            "rows to test on, unknown class '2'",
        ),
        (
            {"x": GOOD, "y": np.array([0, None, 0, 1], dtype=object)},
            "expected an NPZ file of plain arrays: Object arrays cannot be loaded",
        ),
    ],
)
def test_what_is_wrong_with_an_npz_is_said_with_its_array(arrays, words):
    error = fails(words, npz(**arrays))
    assert isinstance(error, HalfnetFileError)
    assert str(error).startswith("arrays.npz: ")


def npy_bytes():
    file = io.BytesIO()
    np.save(file, GOOD)
    return file.getvalue()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: b"", "No data left in file"),
        (lambda raw: b"hello, this is text", "expected an NPZ file of plain arrays"),
        (lambda raw: raw[: len(raw) // 2], "expected an NPZ file of plain arrays"),
        (lambda raw: raw[:150] + b"??" + raw[152:], "Bad CRC-32"),
        (lambda raw: npy_bytes(), "it holds one array without a name, as a .npy does"),
    ],
)
def test_a_damaged_npz(damage, words):
    path = Path(npz(x=GOOD, y=[0, 1, 0, 1]))
    path.write_bytes(damage(path.read_bytes()))
    assert str(fails(words, str(path))).startswith("arrays.npz: expected an NPZ file of plain arra")


@pytest.mark.parametrize("member", ["x.npy", "y.npy"])
def test_a_pickle_in_an_npz_is_not_run(member):
    arrays = {"x.npy": npy_bytes(), "y.npy": npy_bytes()}
    arrays[member] = b"cbuiltins\nopen\n(S'touched'\nS'w'\ntR."
    arrays["y.npy"] = arrays["y.npy"].replace(b"<f8", b"<i8").replace(b"(4, 2)", b"(4,)  ")
    with zipfile.ZipFile("arrays.npz", "w") as archive:
        for name, raw in arrays.items():
            archive.writestr(name, raw)
    fails(f"arrays.npz: {member[0]}: expected an array, got something else", "arrays.npz")
    assert not Path("touched").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.ones((4, 3))}, "expected inputs of shape (2,) as the model learned, got (3,)"),
        ({"x": GOOD, "y": [0, 1, 2, 1]}, "unknown class '2': the nearest name is"),
    ],
)
def test_an_npz_that_does_not_fit_a_model(arrays, words):
    layout = layout_of(npz(x=GOOD, y=[0, 1, 0, 1]))
    assert str(fails(words, npz(**arrays), layout=layout)).startswith("arrays.npz: ")


def test_pixels_that_do_not_fit_a_model_of_pixels():
    pixels = np.full((4, 2, 2), 16, dtype=np.uint8)
    layout = Layout(("0", "1"), (2, 2), pixels=True, brightest=16)
    assert read(npz(x=pixels), layout=layout).pixels
    words = "expected pixels from 0 to 16 as the model learned, got 17"
    assert isinstance(fails(words, npz(x=pixels + 1), layout=layout), HalfnetFileError)
    fails(
        "expected uint8 pixels as the model learned, got float32",
        npz(x=pixels * 1.0),
        layout=layout,
    )


def test_data_of_another_kind_than_a_model_learned():
    table, arrays, folder = csv_file(ROWS), npz(x=GOOD, y=[0, 1, 0, 1]), images()
    of_table, of_arrays = layout_of(table), layout_of(arrays)
    words = "expected a CSV file as the model learned, got "
    fails(f"arrays.npz: {words}an NPZ file", arrays, layout=of_table)
    fails(f"images: {words}a folder of images", folder, layout=of_table)
    fails(f"digits: {words}a data set by its name", "digits", layout=of_table)
    fails("expected inputs without names as the model learned, got a CSV", table, layout=of_arrays)
    fails("expected an NPZ file of numbers as the model learned", folder, layout=of_arrays)


# --- Folders of images -----------------------------------------------------------------------


def test_a_folder_of_colours():
    image("images/dog/b.JPG", colour=(9, 9, 9))
    image("images/dog/a.png", colour=(1, 2, 3))
    image("images/cat/1.png", colour=(4, 5, 6))
    image("images/cat/2.png", mode="L", colour=8)
    Path("images/.hidden").write_text("")
    found = read("images")
    assert found.x.shape == (4, 3, 2, 3)  # channels, height, width
    assert found.x.dtype == np.uint8
    assert found.x[:3, :, 0, 0].tolist() == [[4, 5, 6], [8, 8, 8], [1, 2, 3]]
    assert found.labels.tolist() == ["cat", "cat", "dog", "dog"]
    assert found.files == ("cat/1.png", "cat/2.png", "dog/a.png", "dog/b.JPG")
    assert not found.resized


def test_a_folder_of_grey_images():
    assert read(images(mode="L", colour=5)).x.tolist() == [[[5] * 3] * 2] * 4


def test_images_of_different_sizes_are_named_and_can_be_resized():
    image(f"{images()}/cat/x.png", size=(4, 5))
    words = "cat/x.png: expected 3x2 pixels as the images before it have, got 4x5; --size"
    fails(words, "images")
    found = read("images", size="6X4")
    assert found.x.shape == (5, 3, 4, 6)
    assert found.resized


def test_a_model_of_resized_images_resizes():
    layout = layout_of(images(), size="6x4")
    image("new/1.png", size=(9, 9))
    image("new/2.png", size=(5, 7), mode="L")
    found = read("new", layout=layout)
    assert found.x.shape == (2, 3, 4, 6)
    assert found.labels is None
    assert found.files == ("1.png", "2.png")


def test_images_that_do_not_fit_a_model():
    grey = layout_of(images("grey", mode="L"))
    fails("colour/cat/0.png: expected a grey image as the model", images("colour"), layout=grey)
    other = images("large", size=(8, 8), mode="L")
    error = fails("expected 3x2 pixels as the model learned, got 8x8", other, layout=grey)
    assert "--size" not in str(error)
    image("birds/bird/1.png", mode="L")
    assert "birds: unknown class 'bird'" in str(fails("nearest", "birds", layout=grey))


def test_what_is_wrong_with_a_folder_is_said_with_the_file():
    Path("empty").mkdir()
    fails("empty: expected sub-folders with images, one a class, got none", "empty")
    image("flat/1.png")
    fails("flat/1.png: expected only sub-folders beside it, one a class", "flat")
    fails(f"{images('one')}/rat: expected PNG or JPEG images, got none", *[make_empty("one/rat")])
    Path(images("notes"), "cat", "a.txt").write_text("")
    fails("notes/cat/a.txt: expected a PNG or JPEG image", "notes")
    Path(images("folders"), "cat", "sub.png").mkdir()
    fails("folders/cat/sub.png: expected a PNG or JPEG image", "folders")
    Path(images("text"), "dog", "0.png").write_text("hello")
    fails("text/dog/0.png: expected a PNG or JPEG image: cannot identify", "text")
    image(f"{images('deep')}/cat/9.png", mode="I;16", colour=9)
    fails("deep/cat/9.png: expected 8 bits a colour, got Pillow's mode 'I;16'", "deep")
    single = images("single")
    for path in Path(single, "dog").iterdir():
        path.unlink()
    Path(single, "dog").rmdir()
    fails("single: labels: expected at least two classes, got only 'cat'", "single")


def make_empty(folder):
    Path(folder).mkdir()
    return folder.split("/")[0]


def test_a_truncated_image():
    Path("images/cat").mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save("images/cat/1.png")
    raw = Path("images/cat/1.png").read_bytes()
    Path("images/cat/1.png").write_bytes(raw[: len(raw) // 2])
    fails("images/cat/1.png: the image is damaged: image file is truncated", "images")


def test_images_are_read_as_they_are_shown():
    """Turned as the camera noted, and on white where they are transparent."""
    Path("shown/a").mkdir(parents=True)
    upright = np.zeros((10, 12), dtype=np.uint8)
    upright[:, 9:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    sideways = Image.fromarray(np.ascontiguousarray(np.rot90(upright)))
    sideways.save("shown/a/1.jpg", exif=exif, quality=100)
    icon = np.zeros((10, 12, 2), dtype=np.uint8)
    icon[:, :6, 1] = 255  # black at the left, nothing at the right
    Image.fromarray(icon, "LA").save("shown/a/2.png")
    read = read_folder(Path("shown"), None, None)
    assert read.x.shape == (2, 10, 12)
    assert abs(read.x[0].astype(int) - upright).max() < 10
    assert (read.x[1][:, :6] == 0).all()
    assert (read.x[1][:, 6:] == 255).all()


def test_images_that_cannot_be_opened(monkeypatch):
    folder = images()

    def refuse(path, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", refuse)
    fails("cannot read images/cat/0.png: Permission denied", folder)


def test_a_size_as_people_write_it():
    assert size_from("32x16") == (32, 16)
    with pytest.raises(HalfnetValueError, match="sides of at most 4096 pixels, got '99999x2'"):
        size_from("99999x2")
    for text in ("32", "x", "32x", "0x5", "3x-4", "axb", "3x4x5"):
        with pytest.raises(HalfnetValueError, match="size: expected WIDTHxHEIGHT, such as 32x32"):
            size_from(text)


# --- Classes and layouts ---------------------------------------------------------------------


def test_classes_are_in_the_order_of_numbers_if_all_are():
    assert classes_of(np.array(["10", "9", "-1", "9", "10", "-1"])) == ("-1", "9", "10")
    assert classes_of(np.array(["10", "9", "b", "9", "10", "b"])) == ("10", "9", "b")
    assert numbered(np.array(["10", "9", "10"]), ("9", "10")).tolist() == [1, 0, 1]


LAYOUT = Layout(
    ("a, b", "ü"),
    (3, 4, 5),
    pixels=True,
    columns=("x", "y"),
    target="t",
    resized=True,
    brightest=16,
)


def test_a_layout_comes_back_from_its_metadata():
    assert Layout.from_metadata(LAYOUT.to_metadata(), Path("m")) == LAYOUT


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("classes", '"', ""),
        ("classes", '["a, b", "\\u00fc"]', '["a"]'),
        ("classes", '["a, b", "\\u00fc"]', '[1, "a"]'),
        ("classes", '["a, b", "\\u00fc"]', '"ab"'),
        ("inputs", "[3, 4, 5]", "[3, 4, 0]"),
        ("inputs", "[3, 4, 5]", "[3.5]"),
        ("inputs", "[3, 4, 5]", "[3]"),  # and resized
        ("inputs", "[3, 4, 5]", "[2, 3, 4, 5]"),
        ("inputs", "[3, 4, 5]", "7"),
        ("inputs", '["x", "y"]', "[1]"),
        ("inputs", '"brightest": 16', '"brightest": 0'),
        ("inputs", '"brightest": 16', '"brighter": 16'),
        ("inputs", '{"', '[{"'),
    ],
)
def test_a_layout_of_other_content_is_refused(key, old, new):
    metadata = LAYOUT.to_metadata()
    changed = metadata | {key: metadata[key].replace(old, new)}
    assert changed != metadata
    with pytest.raises(HalfnetFileError, match="m: expected a model that halfnet train wrote"):
        Layout.from_metadata(changed, Path("m"))


def test_a_file_without_a_layout():
    with pytest.raises(HalfnetFileError, match="does not say what its inputs and classes are"):
        Layout.from_metadata({}, Path("m"))


def test_inputs_print_without_their_arrays():
    assert "array" not in repr(Inputs(GOOD, np.array(["a"] * 4)))
