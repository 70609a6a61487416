"""The federated benchmark in pfl's simulated backend; runs inside pfl's own environment, started by federated.py.

    python federated_pfl.py DATA OUTPUT ROUNDS [ROUNDS ...]

pfl's FederatedAveraging with a NumPy model, which needs no deep-learning framework and is the lightest model pfl can train: the local
step, which pfl otherwise takes from a framework, is written here. Every user in every round, one full-batch step, no evaluation, no
metrics printed. One process, as pfl runs without a framework.
"""

import json
import sys
import time
from importlib import metadata

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.base import StatefulModel
from pfl.stats import MappedVectorStatistics


class LogisticModel(StatefulModel):
    """The parameters of logistic regression, changed in place as pfl's own models are."""

    def __init__(self, dimension: int) -> None:
        self.parameters = np.zeros(dimension, np.float32)

    def step(self, features: np.ndarray, labels: np.ndarray, step_size: float) -> None:
        slopes = 0.5 * labels * (np.tanh(0.5 * labels * (features @ self.parameters)) - 1)
        self.parameters -= np.float32(step_size / len(labels)) * (slopes @ features)

    def get_parameters(self, placeholders=None):
        if placeholders is None:
            return MappedVectorStatistics({"parameters": self.parameters.copy()})
        placeholders["parameters"][:] = self.parameters
        return placeholders

    def set_parameters(self, w) -> None:
        self.parameters[:] = w["parameters"]

    def get_model_difference(self, other_parameters, clone=False):
        return MappedVectorStatistics({"parameters": self.parameters - other_parameters["parameters"]})

    def apply_model_update(self, statistics):
        self.parameters += statistics["parameters"]
        return self, Metrics()

    def evaluate(self, dataset, name_formatting_fn, eval_params=None):
        return Metrics()  # pfl evaluates in its first round, whatever the frequency

    def save(self, dir_path: str) -> None:
        raise NotImplementedError

    def load(self, dir_path: str) -> None:
        raise NotImplementedError


class NumpyAveraging(FederatedAveraging):
    """FederatedAveraging, with the model's own step in place of a framework's optimizer."""

    def train_one_user(self, initial_model_state, model, user_dataset, central_context):
        model.step(*user_dataset.raw_data, central_context.model_train_params.local_learning_rate)
        return model.get_model_difference(initial_model_state), Metrics()


def main() -> None:
    path, output, *lengths = sys.argv[1:]
    with np.load(path) as data:
        features, labels, step_size = data["features"], data["labels"], float(data["step_size"])
    users = range(len(features))
    versions = {name: metadata.version(name) for name in ("pfl", "numpy")}
    result = {"versions": versions, "seconds": [], "cpu_seconds": [], "models": []}
    for rounds in map(int, lengths):
        sampler = get_user_sampler("minimize_reuse", users)  # in order: a cohort of all is everyone once
        dataset = FederatedDataset.from_slices({k: (features[k], labels[k]) for k in users}, sampler)
        backend, model = SimulatedBackend(dataset, dataset), LogisticModel(features.shape[2])
        params = NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=len(users),
            val_cohort_size=0,
        )
        training = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=step_size, local_batch_size=None)
        before, cpu_before = time.perf_counter(), time.process_time()
        NumpyAveraging().run(params, backend, model, training, send_metrics_to_platform=False)
        result["seconds"].append(time.perf_counter() - before)
        result["cpu_seconds"].append(time.process_time() - cpu_before)
        result["models"].append(model.parameters.tolist())
        result.setdefault("ready_at", time.time())
    with open(output, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
