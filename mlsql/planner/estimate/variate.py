"""Control variates: a proxy known for every row takes variance out of a mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsql.planner.estimate.arrays import Floats
from mlsql.planner.estimate.predict import labels_for_mean


@dataclass(frozen=True)
class Fit:
    """What a pilot says about a proxy: Z = Y − coefficient·(Ŷ − mean Ŷ)."""

    coefficient: float
    correlation: float
    variance: float  # of Y
    residual: float  # of Z, from the pilot

    @property
    def useful(self) -> bool:
        """Whether the proxy takes any variance away."""
        return self.residual < self.variance


def fit_variate(values: Floats, scores: Floats) -> Fit:
    """The least-squares coefficient of a pilot's values on its scores; 0 for a constant proxy.

    The pilot must not be drawn again (pass it to MeanSearch as `known`): the coefficient has to be
    fixed before the first bet. One degree of freedom is charged for it.
    """
    centred, scored = values - values.mean(), scores - scores.mean()
    variance, spread = float(np.mean(centred**2)), float(np.mean(scored**2))
    if len(values) < 3 or spread <= 0 or variance <= 0:
        return Fit(0.0, 0.0, variance, variance)
    covariance = float(np.mean(centred * scored))
    residual = max(variance - covariance**2 / spread, 0.0) * len(values) / (len(values) - 2)
    correlation = covariance / (variance * spread) ** 0.5
    return Fit(covariance / spread, correlation, variance, residual)


def variate_offsets(scores: Floats, coefficient: float) -> Floats:
    """−c(Ŷ − mean Ŷ) for every row, with mean 0; a NaN score (NULL) corrects nothing."""
    mean = scores.mean() if len(scores) else 0.0
    if np.isfinite(mean):
        return np.asarray(coefficient * (mean - scores), np.float64)
    known = ~np.isnan(scores)
    mean = scores[known].mean() if known.any() else 0.0
    return np.where(known, coefficient * (mean - scores), 0.0)


def combined_scores(pilot_values: Floats, pilot_columns: Floats, columns: Floats) -> Floats:
    """One proxy out of several, (rows, k) → (rows,): ridge regression on the pilot.

    Use its scores with coefficient 1 refitted on other rows, or fit_variate on a second pilot: the
    same pilot flatters itself. Columns may be interpolated neighbours, pixel features, …
    """
    means, spreads = pilot_columns.mean(axis=0), pilot_columns.std(axis=0) + 1e-12
    known = (pilot_columns - means) / spreads
    gram = known.T @ known + np.eye(known.shape[1])
    weights = np.linalg.solve(gram, known.T @ (pilot_values - pilot_values.mean()))
    out: Floats = pilot_values.mean() + (columns - means) / spreads @ weights
    return out


def predicted_labels(fit: Fit, offsets: Floats, span: float, error: float, delta: float,
                     population: float = np.inf) -> tuple[float, float]:
    """Labels without and with the control variate, the pilot not counted; take the cheaper.

    The caller adds what the proxy's scan costs, in labels, to the second.
    """
    wide = span + float(offsets.max() - offsets.min()) if len(offsets) else span
    without = labels_for_mean(fit.variance, span, error, delta, population)
    return without, labels_for_mean(fit.residual, wide, error, delta, population)
