"""How the code is shaped, counted: `make lint` runs this and fails where a limit is passed.

    complexity   one, and one more for every branch, loop, except, case, ternary, boolean operator and comprehension of a function, what it
                 nests included: at most 12
    parameters   of a function that is not public (no `__all__` lists it) and no command, whose parameters are the options that its users
                 type: at most 8
    hops         files inside accounting/ in which something runs while `sv.account` answers for an eavesdropper: at most 10
    lines        of a module: at most 400

The number of statements, docstrings aside, is printed for comparison between versions.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_COMPLEX, MOST_PARAMETERS, MOST_HOPS, MOST_LINES = 12, 8, 10, 400
SOURCE = Path(__file__).parents[1] / "src" / "sottovoce"
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def complexity(function: ast.AST) -> int:
    """The number of ways through a function, roughly."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def parameters(function: Function) -> int:
    """How many a function takes."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def statements(tree: ast.AST) -> int:
    """Statements of a module, docstrings aside."""
    text = (ast.Expr,)
    return sum(
        isinstance(node, ast.stmt) and not (isinstance(node, text) and isinstance(node.value, ast.Constant))
        for node in ast.walk(tree)
    )


def functions(tree: ast.AST) -> Iterator[Function]:
    """All functions and methods of a module, nested ones too."""
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def public_names() -> set[str]:
    """Names that some `__all__` lists."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            named = isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "__all__" for one in node.targets)
            if named and isinstance(node.value, ast.List):  # type: ignore[attr-defined]
                found |= {one.value for one in node.value.elts if isinstance(one, ast.Constant)}  # type: ignore[attr-defined]
    return found


def files_of_an_account() -> list[str]:
    """Files inside accounting/ in which something runs while a first question about an eavesdropper is answered."""
    import sottovoce as sv

    parts = (
        sv.topologies.ring(10),
        sv.algorithms.atc(step_size=0.1),
        sv.noise.independent(sv.noise.Gaussian(std=1.0)),
        sv.observers.eavesdropper(),
    )
    sv.account(*parts, rounds=2, sensitivity=1.0)  # imports come first
    ran: set[str] = set()
    sys.setprofile(lambda frame, event, _: ran.add(frame.f_code.co_filename))
    sv.account(*parts, rounds=10, sensitivity=1.0)
    sys.setprofile(None)
    inside = SOURCE / "accounting"
    return sorted(str(Path(one).relative_to(inside)) for one in ran if Path(one).is_relative_to(inside))


def mistakes(path: Path, public: set[str]) -> list[str]:
    """What is too long or too much in a file."""
    text = path.read_text()
    where, found = path.relative_to(SOURCE), []
    if (lines := text.count("\n")) > MOST_LINES:
        found.append(f"{where} has {lines} lines")
    named = public | ({path.stem} if path.parent.name == "cli" else set())
    for function in functions(ast.parse(text)):
        if (ways := complexity(function)) > MOST_COMPLEX:
            found.append(f"{where}:{function.lineno} {function.name} has a complexity of {ways}")
        if (given := parameters(function)) > MOST_PARAMETERS and function.name not in named:
            found.append(f"{where}:{function.lineno} {function.name} takes {given} parameters")
    return found


def main() -> int:
    """Count, print, and fail where a limit is passed."""
    paths, public = sorted(SOURCE.rglob("*.py")), public_names()
    trees = [ast.parse(path.read_text()) for path in paths]
    largest = max(complexity(function) for tree in trees for function in functions(tree))
    files = files_of_an_account()
    wrong = [one for path in paths for one in mistakes(path, public)]
    if len(files) > MOST_HOPS:
        wrong.append(f"sv.account runs through {len(files)} files of accounting/: {', '.join(files)}")
    print(
        f"{len(paths)} modules, {sum(map(statements, trees)):,} statements; largest complexity {largest}; sv.account for an eavesdropper "
        f"runs through {len(files)} files of accounting/."
    )
    for one in wrong:
        print(one)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
