"""A user's own algorithm: ATC with momentum, run with a built-in noise scheme and checked against exact theory."""

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange


def momentum_atc(step_size: float, momentum: float) -> Algorithm:
    """Keep v <- momentum v + grad(w); send psi = w - step_size v;  w <- combination of the neighbours' psi."""

    def velocity(state, gradient):
        return momentum * state["velocity"] + gradient(state["model"])

    def message(state, gradient, round_):
        return state["model"] - step_size * velocity(state, gradient)

    def update(state, received, gradient, round_):
        return {"model": received, "velocity": velocity(state, gradient)}

    return Algorithm(
        name="momentum_atc",
        exchanges=(Exchange(message, update),),
        init=lambda w: {"model": w, "velocity": 0 * w},
        model=lambda state: state["model"],
    )


if __name__ == "__main__":
    features, targets, _ = sv.problems.synthetic_regression(num_agents=10, samples=50, dimension=2, seed=0)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01)
    topology = sv.topologies.ring(10)
    noise = sv.noise.graph_homomorphic(sv.noise.Laplace(std=0.1))
    algorithm = momentum_atc(0.05, 0.8)
    run = sv.simulate(problem, topology, algorithm, noise, rounds=300, repeats=200, batch_size=1)
    exact = sv.expected_msd(problem, topology, algorithm, noise, rounds=300, batch_size=1)
    print(f"simulated msd_average after 300 rounds: {run.metrics['msd_average'][:, -1].mean():.5f}")
    print(f"exact expectation:                      {exact['msd_average'][-1]:.5f}")
