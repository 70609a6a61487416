"""Which noise is cheapest at equal privacy? Three schemes, two observers, the same epsilon for all."""

import sottovoce as sv

if __name__ == "__main__":
    features, targets, _ = sv.problems.synthetic_regression(num_agents=10, samples=50, dimension=2, seed=0)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01).with_clipping(1.0, "l2")
    law = sv.noise.Gaussian(std=1.0)  # its size is replaced
    comparison = sv.compare(
        problem,
        sv.topologies.ring(10),
        {"atc": sv.algorithms.atc(step_size=0.1)},
        {
            "graph-homomorphic": sv.noise.graph_homomorphic(law),
            "independent": sv.noise.independent(law),
            "own copy clear": sv.noise.independent(law, self_noise=False),
        },
        [sv.observers.eavesdropper(), sv.observers.eavesdropper() + sv.observers.final_model()],
        rounds=100,
        sensitivity=problem.sensitivity(unit="record", adjacency="replace", norm="l2"),
        epsilons=[3.0, 10.0],
        delta=1e-5,
        unit="record",
        losses=problem.losses,
        repeats=50,
        progress=False,
    )
    print(comparison.table())
    for sentence in comparison.sentences():
        print(sentence)
