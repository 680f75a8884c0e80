"""scikit-learn's own checks, all of them, of every estimator."""

import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from halfnet.sklearn import HalfNetClassifier, HalfNetRegressor

torch.set_num_threads(1)

ESTIMATORS = [
    HalfNetClassifier(),
    HalfNetRegressor(),
    HalfNetClassifier(rank="auto", cv=2, epochs=50),
    HalfNetRegressor(n_draws=2, epochs=50),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
