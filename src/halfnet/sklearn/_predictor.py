"""What the classifier and the regressor share: several draws, a rank to choose, learning on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from halfnet import _checks
from halfnet._draws import derived_seed
from halfnet._init import Init
from halfnet.sklearn import _rank, _training
from halfnet.sklearn._base import HalfNetBase
from halfnet.sklearn._data import Data
from halfnet.sklearn._ensemble import draws
from halfnet.sklearn._network import dtype_of, hidden_layers
from halfnet.sklearn._scaling import Array, Scaling


def can_learn_on(estimator: "HalfNetPredictor") -> bool:
    """Whether there is a partial_fit: it sees too few rows to choose a rank by."""
    if isinstance(estimator.rank, str):
        raise AttributeError(
            f"rank: expected a number for partial_fit, which cannot choose one, got "
            f"{estimator.rank!r}"
        )
    return True


class HalfNetPredictor(HalfNetBase):
    """A base of the estimators that predict: the arguments of `HalfNetBase` and two more."""

    def __init__(
        self,
        hidden_units: int | Sequence[int] = (64,),
        rank: int | Sequence[int] | str | None = None,
        *,
        noise: str = "learned",
        binary: bool = False,
        activation: str = "relu",
        draw: str = "normal",
        init: str | Init = "default",
        n_draws: int = 1,
        cv: Any = 5,
        scale: str | None = "auto",
        epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden_units,
            rank,
            noise=noise,
            binary=binary,
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
            warm_start=warm_start,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_draws = n_draws
        self.cv = cv

    def _draws(self) -> int:
        return _checks.integer("n_draws", self.n_draws, 1, 10_000)

    def _ranks(self, data: Data, scaling: Scaling, seed: int) -> tuple[int, ...]:
        if not isinstance(self.rank, str):
            ranks = super()._ranks(data, scaling, seed)
            self.rank_ = ranks[0] if len(set(ranks)) == 1 else ranks
            return ranks
        _checks.choice("rank", self.rank, ("auto",))
        fan_ins = self._fan_ins(data.X.shape[1])
        dtype = self._dtype(data.X)
        task = data.task(scaling, dtype)
        splits = _rank.folds(self.cv, task, seed)
        design = self._design(fan_ins[0], data.targets.outputs, fan_ins, dtype)
        recipe = self._recipe(min(len(learned) for learned, _ in splits))
        path = _rank.rank_path(
            design, fan_ins, task, splits, recipe, seed=seed, verbose=bool(self.verbose)
        )
        self.rank_path_, self.rank_ = path, path.best
        return _rank.clipped(path.best, fan_ins)

    def _learn_on(self, data: Data) -> None:
        """Go through rows once, from where the last call stopped; the first one begins."""
        self._check_switches()
        first = not hasattr(self, "networks_")
        seed = self._seed() if first else self._seed_
        data = data.without_zeros()
        if first:
            scaling, dtype = self._scaling(data), self._dtype(data.X)
            ranks = self._ranks(data, scaling, seed)
            design = self._design(data.X.shape[1], data.targets.outputs, ranks, dtype)
            networks, curve = draws(design, seed, self._draws()), []
        else:
            scaling, networks, curve = self.scaling_, self.networks_, self.loss_curve_
        task = data.task(scaling, dtype_of(networks[0]))
        recipe = self._recipe(len(task.targets.y))
        recipe = replace(recipe, epochs=1, schedule="constant", warmup=0.0)
        order = derived_seed(seed, f"call {len(curve)}")
        run = self._run(networks, task, recipe, order, state=getattr(self, "_optimizer", None))
        self.scaling_, self._seed_ = scaling, seed
        self._optimizer = _training.state(run.training)
        self._keep(run)
        self.loss_curve_ = curve + run.losses
        self.n_iter_ = len(self.loss_curve_)

    def _forget(self) -> None:
        """Drop what only a partial_fit goes on from: a fit begins anew."""
        for name in ("_optimizer", "rank_path_", "validation_scores_", "best_validation_score_"):
            self.__dict__.pop(name, None)

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the variance of a random direction, (n_features,).

        A unit's weights are drawn from N(0, Sigma), so feature j adds Sigma_jj Var(x_j) to the
        variance of r . x on the average over the draws. These numbers, with a sum of 1, do not
        depend on the scaling or the units of X. What they are not: they say how large a feature's
        weights are in the first layer, not what the network's answers owe to it. Of features that
        tell the same each has its part; a constant one has none; and sigma begins alike for all,
        so that after a short training they differ little. `permutation_importance` measures what
        an answer owes to a feature, at the cost of many predictions.
        """
        check_is_fitted(self, "networks_")
        layer = hidden_layers(self.network_)[0]
        if layer.binary:
            raise AttributeError(
                "feature_importances_: expected binary=False, got True: the sign of a weight has "
                "the same size for each feature"
            )
        geometry = layer.geometry
        diagonal = np.zeros(layer.fan_in)
        for part in (geometry.B, geometry.sigma):
            if part is not None:
                square = part.detach().cpu().double().square()
                diagonal += (square.sum(-1) if square.dim() == 2 else square).numpy()
        spread = diagonal * self.scaling_.variance
        total = spread.sum()
        importances: Array = spread / total if total else spread
        return importances
