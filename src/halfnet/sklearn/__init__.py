"""Half networks as scikit-learn estimators."""

from halfnet.sklearn._classifier import HalfNetClassifier
from halfnet.sklearn._regressor import HalfNetRegressor

__all__ = ["HalfNetClassifier", "HalfNetRegressor"]
