"""What the metric and the features share: a fit whose geometry, not its answers, is wanted."""

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target

from halfnet import _checks
from halfnet._geometry import Geometry
from halfnet._init import Init
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn import _targets
from halfnet.sklearn._base import HalfNetBase
from halfnet.sklearn._scaling import Array

_TARGETS = ("classes", "numbers")


class HalfNetView(ClassNamePrefixFeaturesOutMixin, TransformerMixin, HalfNetBase):  # type: ignore[misc]
    """A transformer that learns a geometry from X and y. Its weights are continuous."""

    def __init__(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        target: str = "classes",
        hidden_units: int | Sequence[int] = (64,),
        noise: str = "learned",
        activation: str = "relu",
        draw: str = "normal",
        init: str | Init = "default",
        scale: str | None = "auto",
        epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden_units=hidden_units,
            rank=rank,
            noise=noise,
            activation=activation,
            draw=draw,
            init=init,
            scale=scale,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.target = target

    def __sklearn_tags__(self) -> Tags:
        """Say that y is needed, and that single precision stays single."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Train a network to tell y from X."""
        target = _checks.choice("target", self.target, _TARGETS)
        X, y = self._validated(X, y)
        weight = self._weights(X, sample_weight)
        if target == "numbers":
            self._train(X, _targets.numbers(y, weight), weight)
            return
        kind = type_of_target(y, input_name="y")
        if kind.startswith("continuous"):
            raise HalfnetValueError(
                "y: expected classes, got continuous numbers, which target='numbers' learns from"
            )
        self._train(X, _targets.classes(y), weight)

    def _exact(self) -> Geometry:
        """Return the geometry of scaled rows in double precision, without gradients."""
        geometry = self.geometry_
        B, sigma = (
            None if part is None else part.detach().cpu().to(torch.float64)
            for part in (geometry.B, geometry.sigma)
        )
        return Geometry(B, sigma)

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError


def in_dtype_of(X: Any, *parts: Array) -> list[Array]:
    """Return arrays in the precision of rows."""
    return [part.astype(X.dtype, copy=False) for part in parts]
