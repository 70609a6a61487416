"""How fast the simulator is, as ratios to what one would otherwise write. Run with `make bench`.

Every case runs in a child process, so that peak memory belongs to it alone, with BLAS on one thread and an empty compilation cache.
XLA keeps its own threads, except in the small reference case, which gets one core for everyone; the CPU seconds of all threads are
what is compared. Nothing fails when a target is missed: it is said.

    python benchmarks/engine.py                 every case; writes benchmarks/results/engine.json
    python benchmarks/engine.py --quick         small sizes, to see that it runs; its numbers mean nothing
    python benchmarks/engine.py --case NAME     one case
    --output FILE                               write the results there (with --quick or --case nothing is written otherwise)
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

CASES = ("reference", "many_of_both", "many_agents", "many_parameters")
RESULTS = Path(__file__).parent / "results" / "engine.json"
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark the simulation engine.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--case", choices=CASES, help="only this case")
    parser.add_argument("--output", type=Path, help="file for the results")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        run_child(options.child, options.quick, options.output)
        return
    names = CASES if options.case is None else (options.case,)
    results: dict[str, Any] = {"facts": facts(options.quick), "cases": {}}
    print_facts(results["facts"])
    for name in names:
        results["cases"][name] = run_case(name, options.quick)
        print_case(name, results["cases"][name])
    output = options.output or (RESULTS if names == CASES and not options.quick else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(rounded(results), indent=1) + "\n")


def facts(quick: bool) -> dict[str, Any]:
    packages = ("sottovoce", "jax", "jaxlib", "numpy", "scipy")
    return {
        "quick": quick,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas_threads": 1,
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """Run a case in a child process with an empty compilation cache."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "case.json"
        environment = {
            **os.environ,
            **ONE_THREAD,
            "JAX_PLATFORMS": "cpu",
            "SOTTOVOCE_CACHE": str(Path(folder) / "cache"),
        }
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        command = [sys.executable, __file__, "--child", name, "--output", str(output)]
        subprocess.run([*command, "--quick"] if quick else command, env=environment, check=True)
        return dict(json.loads(output.read_text()))


def run_child(name: str, quick: bool, output: Path) -> None:
    if name == "reference" and hasattr(os, "sched_setaffinity"):
        # Everything here is small and NumPy has one thread, so everyone gets one core: idle XLA threads would count as CPU time.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # The parent imports nothing heavy: a child inherits the peak memory of the process that started it.
    import large
    import reference
    from threadpoolctl import threadpool_limits

    cases = {
        "reference": reference.reference,
        "many_of_both": large.many_of_both,
        "many_agents": large.many_agents,
        "many_parameters": large.many_parameters,
    }
    with threadpool_limits(limits=1):
        output.write_text(json.dumps(cases[name](quick)))


def rounded(value: Any) -> Any:
    """Four significant digits: more would be noise."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def print_facts(known: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    print(
        "BLAS is pinned to one thread, by environment and by threadpoolctl; XLA uses its own threads, all counted as CPU time.\n"
        "The reference case runs on one core, for everyone."
    )
    print("Ratios: median over interleaved turns (worst turn). The first call's compilation is left out unless said.")


def print_case(name: str, case: dict[str, Any]) -> None:
    setting = ", ".join(f"{value} {key}" for key, value in case["setting"].items())
    memory = case["peak_mb"]
    print(f"\n{name}: {setting}; peak memory {memory['engine']:.0f} MB (with the comparisons {memory['all']:.0f} MB)")
    for who, checked in case.get("agreement_with_theory", {}).items():
        verdict = "agrees with" if checked["agrees"] else "DIFFERS from"
        worst = ", ".join(f"{metric} {value:.1%}" for metric, value in checked["worst_relative"].items())
        print(
            f"  {who:<8} {verdict} exact theory; worst of 12: {worst}; |t| {checked['worst_t']:.1f} < {checked['limit']:.1f}"
        )
    for who, seconds in case.get("cpu_seconds", {}).items():
        print(f"  {who:<42} {seconds:9.2f} CPU s")
    for what, note in case.get("scaled_up", {}).items():
        print(f"  {what} is scaled up from {note}")
    for what, ratio in case.get("ratios", {}).items():
        print(f"  {what:<32} {verdict_of(ratio)}")
    for scheme, row in case.get("schemes", {}).items():
        ours, theirs = row["engine_ms"], row["numpy_ms"]
        print(
            f"  {scheme:<22} engine {ours['cpu']:8.2f} CPU ms ({ours['wall']:8.2f} wall), NumPy {theirs['cpu']:8.2f} "
            f"({theirs['wall']:8.2f}): {verdict_of(row['ratio'])}"
        )
        for part, spent in row.get("parts_ms", {}).items():
            print(f"      {part:<20} {spent['cpu']:8.2f} CPU ms ({spent['wall']:8.2f} wall)")
        for what, rate in row.get("gb_per_second", {}).items():
            print(f"      {what:<20} {rate:8.1f} GB/s")


def verdict_of(ratio: dict[str, Any]) -> str:
    text = f"{ratio['median']:8.2f} x (worst {ratio['worst']:.2f})"
    if "target" in ratio:
        verdict = (
            "reached"
            if ratio["reached_in_worst_turn"]
            else "reached in the median only"
            if ratio["reached"]
            else "MISSED"
        )
        text += f", target {ratio['target']:g} {verdict}"
    return text


if __name__ == "__main__":
    main()
