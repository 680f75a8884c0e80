"""The classifier."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from halfnet.sklearn import _targets
from halfnet.sklearn._base import HalfNetBase
from halfnet.sklearn._scaling import Array


class HalfNetClassifier(ClassifierMixin, HalfNetBase):  # type: ignore[misc]
    """A network of half layers that tells classes."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit."""
        X, y = self._validated(X, y)
        weight = self._weights(X, sample_weight)
        targets = _targets.classes(y)
        self._train(X, targets, weight)
        self.classes_ = targets.classes
        self._kind = targets.kind
        return self

    def decision_function(self, X: Any) -> Array:
        """Return outputs."""
        out = self._outputs(self._validated_X(X))
        if self._kind == _targets.CLASSES and len(self.classes_) == 2:
            return out[:, 1] - out[:, 0]
        return out

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities."""
        out = torch.from_numpy(self._outputs(self._validated_X(X)))
        return (out.sigmoid() if self._kind == _targets.LABELS else out.softmax(-1)).numpy()

    def predict(self, X: Any) -> Array:
        """Return classes."""
        p = self.predict_proba(X)
        if self._kind == _targets.LABELS:
            return (p > 0.5).astype(int)
        return self.classes_[np.argmax(p, -1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
