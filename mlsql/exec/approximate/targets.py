"""The targets of a statement: its clauses, and the settings for what they leave open."""

from __future__ import annotations

from dataclasses import dataclass

from mlsql.config import Settings
from mlsql.parser.accuracy import Accuracy

AGREEMENT = 0.999
"""The share of the candidates that `precision = 'auto'` decides as the exact run would."""


@dataclass(frozen=True)
class Targets:
    """What an answer must keep. `stated` is whether a clause asked for it, not a setting."""

    error: float | None
    relative: bool
    recall: float | None
    precision: float | None
    agreement: float | None
    checked: bool
    confidence: float
    oracle_limit: int | None
    seed: int
    cap: int
    stated: bool

    @property
    def delta(self) -> float:
        """The chance to be wrong that is left."""
        return 1.0 - self.confidence

    def words(self) -> str:
        """The targets as one would write them."""
        parts = []
        if self.error is not None:
            parts.append(f"ERROR WITHIN {self.error:g}{' RELATIVE' if self.relative else ''}")
        if self.recall is not None:
            checked = "" if self.checked else " UNCHECKED"
            parts.append(f"RECALL TARGET {self.recall:.6g}{checked}")
        if self.precision is not None:
            parts.append(f"PRECISION TARGET {self.precision:.6g}")
        if self.agreement is not None:
            parts.append(f"{self.agreement:.6g} of the rows as in fp32")
        return f"{' '.join(parts)} AT CONFIDENCE {self.confidence:.6g}"


def targets(clause: Accuracy | None, settings: Settings) -> Targets:
    """Clauses go before settings; with a clause of its own, a statement's other targets are off."""
    said = clause or Accuracy()
    own = said.wanted
    recall = said.recall if own else settings.number("recall_target") or None
    precision = said.precision if own else settings.number("precision_target") or None
    auto = settings.text("precision") == "auto" and not (own or recall or precision)
    return Targets(
        said.error if own else settings.number("error_target") or None,
        said.relative, recall, precision, AGREEMENT if auto else None,
        said.checked,
        said.confidence or settings.number("confidence"),
        said.oracle_limit or settings.integer("oracle_limit") or None,
        settings.integer("seed"), settings.integer("count_cap"), own)


def any_target(clause: Accuracy | None, settings: Settings) -> bool:
    """Whether a clause or setting asks for less than an exact answer."""
    names = ("error_target", "recall_target", "precision_target")
    return clause is not None or any(settings.number(name) for name in names) \
        or settings.text("limit_takes") == "likeliest" or settings.text("precision") == "auto"
