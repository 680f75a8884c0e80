"""What every estimator here shares: parameters, checks, scaling, and a fit by the one engine."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

from halfnet import _checks
from halfnet._draws import KINDS, derived_seed
from halfnet._engine._recipe import Recipe
from halfnet._geometry import Geometry
from halfnet._init import Init
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import NOISES
from halfnet.sklearn import _targets, _training
from halfnet.sklearn._data import Data
from halfnet.sklearn._ensemble import draws, shared_parameters
from halfnet.sklearn._network import ACTIVATIONS, Design, Forward, dtype_of, hidden_layers
from halfnet.sklearn._scaling import Array, Matrix, Scaling, chunks
from halfnet.sklearn._targets import Targets
from halfnet.sklearn._training import Run, Stopping, Task

RANK = 16
"""The rank where the user names none, if there are as many inputs."""
_EPOCHS = 10
_ENOUGH_STEPS = 300
_DTYPES = {"float32": np.float32, "float64": np.float64}
_MOST = 1_000_000


class HalfNetBase(BaseEstimator):  # type: ignore[misc]
    """Networks of half layers that read scaled rows. See `HalfNetClassifier` for the parameters.

    A subclass validates with `_validated`, makes `Targets` of y, and calls `_train`. What that
    leaves behind:

    - `networks_`: one for each draw, an `nn.Sequential` of hidden1, activation1, ..., output, which
      reads scaled rows; `network_` is the first
    - `scaling_`: the `Scaling` of rows
    - `loss_curve_`, `n_iter_`, and with early stopping `validation_scores_`
    """

    networks_: list[nn.Sequential]
    scaling_: Scaling
    _seed_: int

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
        self.hidden_units = hidden_units
        self.rank = rank
        self.noise = noise
        self.binary = binary
        self.activation = activation
        self.draw = draw
        self.init = init
        self.scale = scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Say that sparse matrices are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- what the user gave ----------------------------------------------------------------------

    def _validated(
        self, X: Any, y: Any, *, reset: bool = True, y_numeric: bool = False
    ) -> tuple[Matrix, Array]:
        """Return rows, floating point and CSR where sparse, and y, (n,) or (n, columns)."""
        X, y = validate_data(
            self, X, y, reset=reset, multi_output=True, y_numeric=y_numeric,
            accept_sparse="csr", dtype=_dtypes(X),
        )  # fmt: skip
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        return X, y

    def _validated_rows(self, X: Any) -> Matrix:
        """Return rows to predict for, checked against those of the fit."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=_dtypes(X))

    def _weights(self, X: Matrix, sample_weight: Any) -> Array | None:
        """Return what rows count as float64, None where all count the same."""
        if sample_weight is None:
            return None
        if not np.any(np.asarray(sample_weight)):
            raise HalfnetValueError(
                "sample_weight: expected at least one that is not zero, got only zeros"
            )
        weight: Array = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        return weight

    # -- what the parameters say -----------------------------------------------------------------

    def _seed(self) -> int:
        """Return the seed that this fit's draws, initial values and order come from."""
        if isinstance(self.random_state, int | np.integer):
            return _checks.integer("random_state", self.random_state, 0, 2**32 - 1)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _units(self) -> tuple[int, ...]:
        units = self.hidden_units
        listed = list(units) if isinstance(units, list | tuple | np.ndarray) else [units]
        if not listed:
            raise HalfnetValueError("hidden_units: expected at least one layer, got none")
        return tuple(_checks.integer("hidden_units", size, 1, _MOST) for size in listed)

    def _fan_ins(self, features: int) -> tuple[int, ...]:
        return (features, *self._units()[:-1])

    def _ranks(self, data: Data, scaling: Scaling, seed: int) -> tuple[int, ...]:
        """Return the rank of each layer; `data` are all rows of the fit."""
        features, rank = data.X.shape[1], self.rank
        fan_ins = self._fan_ins(features)
        if rank is None:
            return tuple(min(RANK, fan_in) for fan_in in fan_ins)
        if isinstance(rank, str):
            raise HalfnetTypeError(f"rank: expected an integer or one for each layer, got {rank!r}")
        listed = (
            list(rank) if isinstance(rank, list | tuple | np.ndarray) else [rank] * len(fan_ins)
        )
        if len(listed) != len(fan_ins):
            raise HalfnetValueError(
                f"rank: expected one integer or {len(fan_ins)} of them, one for each hidden layer, "
                f"got {rank!r}"
            )
        least = 1 if self.noise == "none" else 0
        whys = [f"n_features={features}", *(f"hidden_units={size}" for size in fan_ins[1:])]
        return tuple(
            _checks.integer("rank", own, least, most, f"X has {why}" if i == 0 else why)
            for i, (own, most, why) in enumerate(zip(listed, fan_ins, whys, strict=True))
        )

    def _design(self, features: int, outputs: int, ranks: tuple[int, ...], dtype: Any) -> Design:
        """Return what the networks are built from, all of it checked."""
        try:
            device = torch.device(self.device).type
            torch.empty(0, device=device)
        except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
            why = str(error).splitlines()[0]
            raise HalfnetValueError(
                f"device: expected one that torch can use here, got {self.device!r}: {why}"
            ) from None
        return Design(
            features=features,
            units=self._units(),
            ranks=ranks,
            outputs=outputs,
            activation=_checks.choice("activation", self.activation, ACTIVATIONS),
            noise=_checks.choice("noise", self.noise, NOISES),
            binary=_checks.boolean("binary", self.binary),
            draw=_checks.choice("draw", self.draw, KINDS),
            init=self.init,
            device=device,
            dtype=torch.float64 if dtype == np.float64 else torch.float32,
        )

    def _dtype(self, X: Matrix) -> Any:
        if self.dtype is None:
            return X.dtype.type
        return _DTYPES[_checks.choice("dtype", self.dtype, _DTYPES)]

    def _recipe(self, rows: int) -> Recipe:
        """Return how to train on so many rows."""
        size = _checks.integer("batch_size", self.batch_size, 1, _MOST)
        rate = _checks.number("learning_rate", self.learning_rate, 0)
        if not 0 < rate <= 10:
            raise HalfnetValueError(
                f"learning_rate: expected a number above 0 and at most 10, got {rate:g}"
            )
        schedule = _checks.choice("schedule", self.schedule, ("cosine", "constant"))
        if isinstance(self.epochs, str):
            _checks.choice("epochs", self.epochs, ("auto",))
            epochs = max(_EPOCHS, math.ceil(_ENOUGH_STEPS / math.ceil(rows / size)))
        else:
            epochs = _checks.integer("epochs", self.epochs, 1, _MOST)
        return Recipe(
            rate=rate,
            batch_size=size,
            epochs=epochs,
            schedule=schedule,
            warmup=0.05 if schedule == "cosine" else 0.0,
        )

    def _check_switches(self) -> None:
        for name in ("early_stopping", "warm_start"):
            _checks.boolean(name, getattr(self, name))
        if not isinstance(self.verbose, bool | int | np.bool_ | np.integer):
            raise HalfnetTypeError(
                f"verbose: expected True or False or an integer, got {self.verbose!r}"
            )
        _checks.integer("n_iter_no_change", self.n_iter_no_change, 1)
        fraction = _checks.number("validation_fraction", self.validation_fraction, 0)
        if not 0 < fraction < 1:
            raise HalfnetValueError(
                f"validation_fraction: expected a number between 0 and 1, got {fraction:g}"
            )

    # -- the fit ---------------------------------------------------------------------------------

    def _train(
        self,
        X: Matrix,
        targets: Targets,
        sample_weight: Array | None = None,
        class_weight: Array | None = None,
    ) -> None:
        """Fit the networks from what `_validated` returned.

        Args:
            X: Rows.
            targets: What is to be learned of them.
            sample_weight: What they count, also in the scaling.
            class_weight: A factor for each row by its class, which the scaling does without.
        """
        self._check_switches()
        seed = self._seed()
        whole = Data(X, targets, sample_weight, class_weight).without_zeros()
        learned, kept = self._split(whole, seed) if self.early_stopping else (whole, None)
        begun = self.warm_start and hasattr(self, "networks_")
        networks: list[nn.Sequential]
        scaling: Scaling
        if begun:
            scaling, networks = self.scaling_, self.networks_
        else:
            scaling = self._scaling(learned)
        dtype = self._dtype(X) if not begun else dtype_of(networks[0])
        task = learned.task(scaling, dtype)
        if not begun:
            ranks = self._ranks(Data(X, targets, sample_weight, class_weight), scaling, seed)
            design = self._design(X.shape[1], targets.outputs, ranks, dtype)
            networks = draws(design, seed, self._draws())
        stopping = None
        if kept is not None:
            stopping = Stopping(kept.task(scaling, dtype), self.n_iter_no_change)
        run = self._run(networks, task, self._recipe(len(task.targets.y)), seed, stopping)
        self.scaling_, self._seed_ = scaling, seed
        self._keep(run)

    def _run(
        self,
        networks: list[nn.Sequential],
        task: Task,
        recipe: Recipe,
        seed: int,
        stopping: Stopping | None = None,
        state: dict[str, Any] | None = None,
    ) -> Run:
        tied = shared_parameters(networks[0]) if len(networks) > 1 else ()
        training = _training.start(
            networks, recipe, task, seed=derived_seed(seed, "order"), tied=tied
        )
        if state is not None:
            training.optimizer.load_state(state)
        return _training.run(training, stopping=stopping, verbose=bool(self.verbose))

    def _keep(self, run: Run) -> None:
        self.networks_ = run.training.stack.models()
        self.loss_curve_ = run.losses
        self.n_iter_ = len(run.losses)
        if run.held_out:
            self.validation_scores_ = run.held_out
            self.best_validation_score_ = max(run.held_out)

    def _draws(self) -> int:
        """Return how many networks are to share one geometry."""
        return 1

    def _scaling(self, data: Data) -> Scaling:
        kind = self.scale
        if kind is not None:
            kind = _checks.choice("scale", kind, ("auto", "standard", "shared"))
        return Scaling.fit(data.X, kind, data.sample_weight)

    def _split(self, data: Data, seed: int) -> tuple[Data, Data]:
        """Return what to learn from, and what to keep apart for early stopping."""
        targets = data.targets
        alike = targets.y if targets.kind == _targets.CLASSES else None
        try:
            learned, kept = train_test_split(
                np.arange(len(targets.y)),
                test_size=self.validation_fraction,
                random_state=seed % 2**32,
                stratify=alike,
            )
        except ValueError as error:
            raise HalfnetValueError(
                f"early_stopping: expected enough rows to keep {self.validation_fraction:g} of "
                f"them apart with each class in both parts, got {len(targets.y)}: {error}"
            ) from None
        return data.rows(learned), data.rows(kept)

    # -- what was learned ------------------------------------------------------------------------

    @property
    def network_(self) -> nn.Sequential:
        """The (first) network, which reads scaled rows."""
        check_is_fitted(self, "networks_")
        network: nn.Sequential = self.networks_[0]
        return network

    @property
    def geometry_(self) -> Geometry:
        """The learned geometry of the first layer, in the coordinates of scaled rows."""
        return hidden_layers(self.network_)[0].geometry

    def _outputs(self, X: Matrix) -> Array:
        """Return the outputs for rows that `_validated_rows` returned, (draws, n, outputs)."""
        forwards = [Forward(network) for network in self.networks_]
        out = []
        for _, rows in chunks(X):
            scaled = torch.from_numpy(self.scaling_(rows))
            out.append(torch.stack([forward(scaled) for forward in forwards]))
        return torch.cat(out, 1).numpy()


def _dtypes(X: Any) -> Any:
    """Return what rows may be: small integers, as of images, are exact in float32."""
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize <= 2:
        return (np.float32, np.float64)
    return (np.float64, np.float32)
