"""Half networks as scikit-learn estimators."""

from halfnet.sklearn._classifier import HalfNetClassifier
from halfnet.sklearn._features import HalfNetFeatures
from halfnet.sklearn._metric import HalfNetMetric
from halfnet.sklearn._regressor import HalfNetRegressor

__all__ = ["HalfNetClassifier", "HalfNetFeatures", "HalfNetMetric", "HalfNetRegressor"]
