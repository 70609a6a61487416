"""Ten hospitals share noise with those they talk to: how much more accurate is that, and what if one of them turns curious?"""

import sottovoce as sv

if __name__ == "__main__":
    hospitals = sv.topologies.erdos_renyi(10, 0.4, seed=0)  # who talks to whom
    learning = sv.algorithms.atc(step_size=0.05)
    outsider = sv.observers.eavesdropper() + sv.observers.final_model()  # reads every message and gets the model
    asked = {
        "rounds": 200,
        "sensitivity": 2.0 / 40,
        "unit": "record",
        "curvature": 1.0,
    }  # 40 records each, clipped to 1

    outsiders_only = sv.noise.design(hospitals, learning, {outsider: (4.0, 1e-5)}, **asked)
    insiders_too = sv.noise.design(
        hospitals, learning, {outsider: (4.0, 1e-5), outsider + sv.observers.any_coalition(1): (4.0, 1e-5)}, **asked
    )
    for name, design in {"against outsiders": outsiders_only, "against any hospital too": insiders_too}.items():
        worst = max(design.keys().learnt_by(1).values())
        print(
            f"{name}: {design.gain:.2f} times less noise in a model than with noise of one's own; "
            f"epsilon of one hospital that reads everything {sv.accounting.gaussian.epsilon(worst, 1e-5):.2f}"
        )
    first = insiders_too.keys().of_agent(0)
    print(f"hospital 0 draws noise of std {first['own']:.4f} alone, and shares noise with {sorted(first['shared'])}")
