"""Training on data of the user's own: it learns, repeats itself, and stops when it must."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import halfnet
from halfnet._engine._low_rank import LowRank
from halfnet._engine._training import NotFiniteError
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.lab import _fitting, _model_file
from halfnet.lab._fitting import RECIPE, default_layers, fit, with_enough_epochs
from halfnet.lab._inputs import Inputs, Layout
from halfnet.lab._layers_text import parse
from halfnet.nn._standardize import Standardize

QUICK = replace(RECIPE, rate=1e-2, batch_size=32, epochs=60)
HALF = parse("half(32, k=3)")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def table(rows=240, seed=0):
    """Two columns in very different units, one that is constant, and whether a point is inside."""
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, 2))
    labels = np.where((x**2).sum(1) < 0.6, "in", "out")
    columns = np.column_stack([x[:, 0] * 1e4 + 5e5, x[:, 1] * 1e-3, np.full(rows, 7.0)])
    return Inputs(columns.astype(np.float32), labels, columns=("a", "b", "c"), target="where")


def bars(rows=120, seed=0, shape=(8, 8)):
    """Noisy pixels with a bright row or a bright column."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 60, (rows, *shape), dtype=np.uint8)
    upright = rng.integers(0, 2, rows)
    places = rng.integers(0, 8, rows)
    for image, column, place in zip(x, upright, places, strict=True):
        image[(..., place) if column else (..., place, slice(None))] += 150
    return Inputs(x, np.where(upright, "column", "row"))


def answers(fitted, x):
    with torch.inference_mode():
        places = fitted.model(torch.from_numpy(x)).argmax(-1)
    return np.array(fitted.layout.classes)[places.numpy()]


def test_a_table_is_learned_and_the_model_takes_its_raw_numbers():
    inputs = table()
    fitted = fit(inputs, HALF, QUICK)
    assert min(fitted.accuracy.train, fitted.accuracy.validation) > 85  # chance is below 60
    new = table(seed=1)
    assert np.mean(answers(fitted, new.x) == new.labels) > 0.85
    right = 100 * np.mean(answers(fitted, inputs.x) == inputs.labels)
    parts = zip(fitted.accuracy[:2], fitted.rows[:2], strict=True)
    assert sum(accuracy * rows for accuracy, rows in parts) / 240 == pytest.approx(right)
    assert fitted.layout == Layout(("in", "out"), (3,), False, ("a", "b", "c"), "where")


@pytest.mark.parametrize("layers", ["halfconv(4, 3, k=4), dense(8)", "conv(4, 3)"])
@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8)], ids=["grey", "colours"])
def test_pixels_are_learned_and_the_model_takes_uint8(layers, shape):
    fitted = fit(bars(shape=shape), parse(layers), QUICK)
    new = bars(seed=1, shape=shape)
    assert np.mean(answers(fitted, new.x) == new.labels) > 0.8
    assert fitted.layout.pixels
    assert fitted.layout.shape == shape
    assert fitted.model.scale.scale == 255


def test_the_brightest_pixel_is_the_datas():
    inputs = replace(bars(rows=20), brightest=16)
    fitted = fit(inputs, parse(""), replace(QUICK, epochs=1))
    assert fitted.model.scale.scale == 16
    assert fitted.layout.brightest == 16


def test_images_of_numbers_are_scaled_together():
    inputs = bars(rows=40)
    numbers = replace(inputs, x=inputs.x.astype(np.float32))
    fitted = fit(numbers, parse(""), replace(QUICK, epochs=1), validation=0)
    assert fitted.model.scale.mean == pytest.approx(inputs.x.mean())
    assert fitted.model.scale.scale == pytest.approx(inputs.x.std())


def test_columns_are_scaled_by_the_rows_to_learn_from():
    inputs = table(rows=40)
    fitted = fit(inputs, parse(""), replace(QUICK, epochs=1), validation=0.5, seed=3)
    scaled = fitted.model.scale(torch.from_numpy(inputs.x)).numpy()
    learned, kept = _fitting._split(40, 0.5, 3)
    np.testing.assert_allclose(scaled[learned].mean(0), 0, atol=2e-3)
    np.testing.assert_allclose(scaled[learned, :2].std(0), 1, rtol=1e-3)
    assert abs(scaled[kept].mean(0)).max() > 0.01
    assert (scaled[:, 2] == 0).all()  # the constant column


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others():
    def numbers(seed):
        torch.manual_seed(int(torch.randint(1000, ())))  # which nothing may depend on
        fitted = fit(table(60), HALF, replace(QUICK, epochs=2), seed=seed)
        return fitted.accuracy, nn.utils.parameters_to_vector(fitted.model.parameters())

    (accuracy, first), (again, second), (_, other) = numbers(1), numbers(1), numbers(2)
    assert accuracy == again
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_rows_kept_apart_are_a_fraction_and_a_function_of_the_seed():
    learned, kept = _fitting._split(100, 0.2, 0)
    assert sorted([*learned, *kept]) == list(range(100))
    assert len(kept) == 20
    assert kept.tolist() != list(range(20))
    assert _fitting._split(100, 0.2, 0)[1].tolist() == kept.tolist()
    assert _fitting._split(100, 0.2, 1)[1].tolist() != kept.tolist()
    assert [len(part) for part in _fitting._split(4, 0.01, 0)] == [3, 1]
    assert [len(part) for part in _fitting._split(4, 0.9, 0)] == [1, 3]
    assert [len(part) for part in _fitting._split(4, 0, 0)] == [4, 0]


def test_rows_kept_apart_are_not_learned_from():
    inputs = table(rows=100)
    kept = _fitting._split(100, 0.3, 0)[1]
    spoilt = replace(inputs, x=inputs.x.copy())
    spoilt.x[kept] *= -100
    one, other = (fit(data, HALF, QUICK, validation=0.3) for data in (inputs, spoilt))
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name
    assert one.accuracy.train == other.accuracy.train
    assert one.accuracy.validation != other.accuracy.validation


def test_rows_to_test_on_are_measured_and_missing_parts_have_no_accuracy():
    fitted = fit(replace(table(), test=table(50, seed=9)), HALF, QUICK, validation=0)
    assert fitted.rows == (240, 0, 50)
    assert fitted.accuracy.validation is None
    assert fitted.accuracy.test > 80
    unlabelled = fit(replace(table(20), test=Inputs(table(5).x)), HALF, replace(QUICK, epochs=1))
    assert unlabelled.rows == (18, 2, 0)
    assert unlabelled.accuracy.test is None


def test_progress_is_told_step_by_step_with_scores_at_the_end_of_an_epoch():
    told = []
    fit(table(70), HALF, replace(QUICK, epochs=2), on_step=lambda *step: told.append(step))
    ends = [(done, total) for done, total, scores in told if scores is not None]
    assert ends == [(2, 4), (4, 4)]  # 63 rows are 2 batches
    assert [step[:2] for step in told if step[2] is None] == [(i, 4) for i in (1, 2, 3, 4)]


def test_a_loss_that_is_no_number_stops_it_and_says_at_which_step(monkeypatch):
    """The weights of the output become infinite after the third step."""
    inputs = table(64)

    def spoil(self, step):
        if step == 3:
            with torch.no_grad():
                self.stack.get_parameter("output.bias").fill_(torch.inf)
        return 0.01

    monkeypatch.setattr(_fitting.Training, "_rate", spoil)
    with pytest.raises(NotFiniteError) as caught:
        fit(inputs, HALF, replace(QUICK, batch_size=16), validation=0)
    assert str(caught.value) == (
        "the loss is no finite number any more at step 4 (epoch 1); a smaller rate than 0.01 may "
        "help"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": None}, "inputs: expected labels to learn, got none"),
        ({"labels": np.array(["in"] * 20)}, "labels: expected at least two classes"),
    ],
)
def test_inputs_that_cannot_be_learned(changes, words):
    with pytest.raises(HalfnetValueError, match=words):
        fit(replace(table(20), **changes), HALF, QUICK)


def test_arguments_that_cannot_be():
    for validation in (-0.1, 0.95):
        with pytest.raises(HalfnetValueError, match=r"validation: .* from 0 to 0\.9"):
            fit(table(20), HALF, QUICK, validation=validation)
    with pytest.raises(HalfnetValueError, match="seed: expected an integer from 0"):
        fit(table(20), HALF, QUICK, seed=-1)
    with pytest.raises(HalfnetValueError, match="threads: expected an integer from 1"):
        _fitting.set_threads(0)
    with pytest.raises(HalfnetTypeError, match="threads"):
        _fitting.set_threads("2")
    _fitting.set_threads(2)
    assert torch.get_num_threads() == 2


def test_the_layers_of_a_user_who_names_none():
    assert default_layers(table(4)) == "half(64, k=3)"
    assert default_layers(bars(4)) == "half(64, k=16)"


def test_few_rows_get_more_epochs_to_make_enough_steps():
    assert with_enough_epochs(RECIPE, table(100)).epochs == 1000
    assert with_enough_epochs(RECIPE, table(1280)).epochs == 100
    assert with_enough_epochs(RECIPE, table(128 * 1000)).epochs == RECIPE.epochs
    assert with_enough_epochs(replace(RECIPE, epochs=2000), table(100)).epochs == 2000


@pytest.mark.parametrize(
    ("layers", "params", "dense"),
    [
        ("", 3 * 2 + 2, 3 * 2 + 2),
        ("dense(8)", 3 * 8 + 8 + 18, 3 * 8 + 8 + 18),
        ("lowrank(8, k=2)", (3 + 8) * 2 + 8 + 18, 3 * 8 + 8 + 18),
        ("half(8, k=2)", 3 * 2 + 3 + 8 + 8 + 18, 3 * 8 + 8 + 18),
    ],
)
def test_learned_numbers_beside_those_of_dense_layers(layers, params, dense):
    fitted = fit(table(20), parse(layers), replace(QUICK, epochs=1))
    assert (fitted.params, fitted.dense_params) == (params, dense)


def test_learned_numbers_of_a_half_convolution_beside_those_of_a_full_one():
    inputs, recipe = bars(20, shape=(3, 8, 8)), replace(QUICK, epochs=1)
    half = fit(inputs, parse("halfconv(4, 3, k=2, padding=1)"), recipe)
    full = fit(inputs, parse("conv(4, 3, padding=1)"), recipe)
    assert half.dense_params == full.dense_params == full.params > half.params


def test_a_low_rank_layer_becomes_torchs_own_two():
    layer = LowRank(6, 5, 2)
    two = _fitting._as_two(layer)
    x = torch.randn(7, 6)
    torch.testing.assert_close(two(x), layer(x))
    fitted = fit(table(20), parse("lowrank(5, k=2)"), replace(QUICK, epochs=1))
    assert not any(isinstance(module, LowRank) for module in fitted.model.modules())


@pytest.mark.parametrize("layers", ["", "lowrank(5, k=2), half(6, k=2, binary)", "dense(4)"])
def test_a_model_comes_back_from_its_file_with_its_layout(layers, tmp_path):
    inputs = table(40)
    fitted = fit(inputs, parse(layers), replace(QUICK, epochs=1))
    path = tmp_path / "model.safetensors"
    _model_file.save(fitted.model, fitted.layout, path)
    x = torch.from_numpy(inputs.x)
    loaded = halfnet.load(path)
    assert isinstance(loaded.scale, Standardize)
    torch.testing.assert_close(loaded(x), fitted.model(x), rtol=0, atol=0)
    assert not _model_file.load(path).training
    assert _model_file.layout_of(path) == fitted.layout
