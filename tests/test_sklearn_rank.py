"""The rank by cross-validation, and the padded stack that makes it quick."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold, StratifiedKFold

from halfnet._engine._stack import Stack
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn import HalfNetClassifier, HalfNetRegressor, _rank, _training
from halfnet.sklearn._network import Design, Forward, build

torch.set_num_threads(1)


def networks(ranks, **options):
    return [
        build(Design(features=6, units=(8,), ranks=(rank,), outputs=3, **options), seed)
        for seed, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize("options", [{}, {"binary": True}, {"dtype": torch.float64}], ids=str)
def test_networks_of_different_rank_are_one_stack(options):
    own = networks([0, 1, 3, 6], **options)
    stack = Stack(own)
    x = torch.randn(5, 6, dtype=options.get("dtype", torch.float32))
    together = stack(x)
    torch.testing.assert_close(together, torch.stack([model(x) for model in own]))
    together.square().sum().backward()
    gradient = stack.get_parameter("hidden1.B").grad
    assert (gradient[1, :, 1:] == 0).all()
    assert (gradient[1, :, :1] != 0).any()
    for model, back in zip(own, stack.models(), strict=True):
        for key, value in model.state_dict().items():
            assert torch.equal(back.state_dict()[key], value)
    with pytest.raises(HalfnetValueError, match="expected layers of one size"):
        Stack([*own, build(Design(features=6, units=(9,), ranks=(1,), outputs=3), 0)])


def test_the_path_is_what_fits_one_after_another_give():
    """Each candidate and fold alone, on its rows only, is the oracle."""
    X, y = load_iris(return_X_y=True)
    options = {"hidden_units": 8, "epochs": 30, "random_state": 0, "batch_size": 200}
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    model = HalfNetClassifier(**options, rank="auto", cv=splits).fit(X, y)
    path = model.rank_path_
    assert path.ranks.tolist() == [1, 2, 4]
    assert path.scores.shape == (3, 3)
    scaled = torch.from_numpy(model.scaling_(X))
    alone = np.zeros((3, 3))
    for i, rank in enumerate(path.ranks):
        for fold, (learned, held_out) in enumerate(splits):
            design = Design(
                features=4, units=(8,), ranks=(int(rank),), outputs=3, dtype=torch.float64
            )
            network = build(design, _rank.derived_seed(0, f"fold {fold}"))
            task = _training.Task(scaled[learned].numpy(), _targets_of(y[learned]))
            training = _training.start([network], model._recipe(len(learned)), task, seed=0)
            trained = _training.run(training).training.stack.models()[0]
            answers = Forward(trained)(scaled[held_out]).argmax(-1).numpy()
            alone[i, fold] = (answers == y[held_out]).mean()
    np.testing.assert_allclose(path.scores, alone, atol=1e-6)
    assert path.best == path.ranks[path.scores.mean(1).argmax()] == model.rank_
    assert model.network_.hidden1.rank == model.rank_
    plain = HalfNetClassifier(**options, rank=model.rank_).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-9)


def test_the_rows_of_a_fold_weigh_one_on_the_average_and_the_others_nothing():
    targets = _targets_of(np.array([0, 1, 2, 0]))
    task = _training.Task(np.zeros((4, 2)), targets, np.array([1.0, 3.0, 0.0, 4.0]))
    weights = _rank._weights(task, [np.array([0, 1]), np.array([1, 2, 3])])
    np.testing.assert_allclose(weights, [[1, 3, 0, 0], [0, 12 / 7, 0, 16 / 7]], rtol=1e-6)


def _targets_of(y):
    from halfnet.sklearn import _targets  # noqa: PLC0415

    return _targets.classes(y, np.arange(3))


def test_the_rank_that_the_data_have_is_found():
    """One direction of 20 tells all: more rank only over-fits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    y = np.stack([np.abs(X @ direction) for direction in rng.normal(size=(3, 12))], 1)
    model = HalfNetRegressor(
        rank="auto", noise="none", epochs=150, learning_rate=1e-2, cv=3, random_state=0
    ).fit(X, y)
    assert model.rank_path_.mean[0] < model.rank_path_.mean[2]  # rank 1 is too little for three
    assert model.rank_ >= 3
    assert model.rank_path_.std.shape == model.rank_path_.mean.shape


def test_weights_and_layers_and_splitters():
    X, y = load_iris(return_X_y=True)
    options = {"epochs": 3, "random_state": 0, "rank": "auto"}
    deep = HalfNetClassifier(**options, hidden_units=(8, 6), cv=2, n_draws=2).fit(X, y)
    assert deep.rank_path_.ranks.tolist() == [1, 2, 4, 8]
    layers = deep.network_.hidden1, deep.network_.hidden2
    assert [layer.rank for layer in layers] == [min(deep.rank_, 4), min(deep.rank_, 8)]
    weighted = HalfNetClassifier(
        **options, hidden_units=8, cv=KFold(2, shuffle=True, random_state=0)
    )
    weighted.fit(X, y, sample_weight=np.where(y == 0, 0.0, 1.0))
    again = HalfNetClassifier(**options, hidden_units=8, cv=2).fit(X[:20], [0] * 19 + [1])
    assert again.rank_path_.scores.shape == (3, 2)  # one row of a class: no stratification
    again.set_params(rank=2).fit(X, y)
    assert not hasattr(again, "rank_path_")
    assert again.rank_ == 2


def test_of_equal_scores_the_smallest_rank_is_best():
    path = _rank.RankPath(np.array([1, 2, 4]), np.array([[0.5, 0.7], [0.8, 0.8], [0.7, 0.9]]))
    assert path.best == 2
