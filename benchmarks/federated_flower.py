"""The federated benchmark in Flower's simulation; runs inside Flower's own environment, started by federated.py.

    python federated_flower.py DATA OUTPUT ROUNDS [ROUNDS ...]

One run of each length, all in one simulation: FedAvg of the message API, every client in every round, one full-batch step, no
evaluation. A client gets one core, so that Ray starts one worker per core: as fast as any other choice on two cores. Each worker reads
the data once and keeps it.
"""

import functools
import json
import sys
import time
from importlib import metadata

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

client = ClientApp()


@functools.cache
def records(path: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as data:
        return data["features"], data["labels"]


@client.train()
def train(message: Message, context: Context) -> Message:
    """One gradient step of logistic regression on the client's records."""
    config = message.content["config"]
    features, labels = (values[context.node_config["partition-id"]] for values in records(config["data"]))
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    slopes = 0.5 * labels * (np.tanh(0.5 * labels * (features @ model)) - 1)
    model = model - np.float32(config["step-size"] / len(labels)) * (slopes @ features)
    content = {"arrays": ArrayRecord([model]), "metrics": MetricRecord({"num-examples": len(labels)})}
    return Message(content=RecordDict(content), reply_to=message)


def main() -> None:
    path, output, *lengths = sys.argv[1:]
    with np.load(path) as data:
        clients, _, dimension = data["features"].shape
        step_size = float(data["step_size"])
    versions = {name: metadata.version(name) for name in ("flwr", "ray", "numpy")}
    result = {"versions": versions, "seconds": [], "models": []}
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _: Context) -> None:
        for rounds in map(int, lengths):
            strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
            config = ConfigRecord({"data": path, "step-size": step_size})
            start = ArrayRecord([np.zeros(dimension, np.float32)])
            before = time.perf_counter()
            found = strategy.start(grid, start, num_rounds=rounds, train_config=config)
            result["seconds"].append(time.perf_counter() - before)
            result["models"].append(found.arrays.to_numpy_ndarrays()[0].tolist())
            result.setdefault("ready_at", time.time())

    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, clients, backend_config=one_core)
    with open(output, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    # Under its importable name the workers find the client by reference, and the data it keeps stays kept.
    import federated_flower

    federated_flower.main()
