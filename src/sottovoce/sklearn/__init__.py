"""Decentralised learning in the way users of scikit-learn work: `fit`, `predict`, `score`, pipelines, with a guarantee beside every model.

    model = DecentralizedLogisticRegression(epsilon=1.0, delta=1e-5, clip=1.0, bounds=(0, 120), observer="final_model",
        unit="record", adjacency="replace", rounds=100, owner="hospital", random_state=0).fit(frame, ill)
    print(model.guarantees_[0])

Inside this package `import sklearn` means scikit-learn: imports are absolute.
"""

from sottovoce.errors import ConfigError

try:
    from sklearn.utils.validation import validate_data as _validate_data  # since scikit-learn 1.6
except ImportError as error:
    raise ConfigError(
        f"sottovoce.sklearn needs scikit-learn 1.6 or later, which cannot be imported ({error}). Install it: pip install 'sottovoce[sklearn]'."
    ) from error

from sottovoce.sklearn.classifier import DecentralizedClassifier
from sottovoce.sklearn.logistic_regression import DecentralizedLogisticRegression
from sottovoce.sklearn.ridge import DecentralizedRidge
from sottovoce.sklearn.search import Search, Tried, search
from sottovoce.sklearn.statement import FitGuarantee

__all__ = [
    "DecentralizedClassifier",
    "DecentralizedLogisticRegression",
    "DecentralizedRidge",
    "FitGuarantee",
    "Search",
    "Tried",
    "search",
]


def __dir__() -> list[str]:
    return __all__
