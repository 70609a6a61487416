"""What tools/shape.py counts."""

import ast

import shape

FUNCTION = '''
def one(a, /, b, *, c):
    """Text is no statement."""
    if a and b or c:
        return [x for x in b if x]
    for y in b:
        try:
            y = 1 if a else 2
        except ValueError:
            pass
    return y
'''


def test_complexity_counts_branches_boolean_operators_ternaries_and_comprehensions():
    function = next(shape.functions(ast.parse(FUNCTION)))
    # one; if; and; or; comprehension and its if; for; except; ternary
    assert shape.complexity(function) == 1 + 1 + 2 + 2 + 1 + 1 + 1
    assert shape.parameters(function) == 3
    assert shape.statements(ast.parse(FUNCTION)) == 8


def test_what_passes_a_limit_is_named(tmp_path, monkeypatch):
    many = ", ".join(f"p{i}" for i in range(9))
    branches = (
        "".join(f"    if p{i}:\n        pass\n" for i in range(9)) + "    return p0 and p1 and p2 and p3 and p4\n"
    )
    (tmp_path / "long.py").write_text(f"def wide({many}):\n{branches}" + "\n" * 400)
    monkeypatch.setattr(shape, "SOURCE", tmp_path)
    found = shape.mistakes(tmp_path / "long.py", set())
    assert len(found) == 3
    assert found[1:] == ["long.py:1 wide has a complexity of 14", "long.py:1 wide takes 9 parameters"]
    assert len(shape.mistakes(tmp_path / "long.py", {"wide"})) == 2


def test_an_account_runs_through_few_files():
    files = shape.files_of_an_account()
    assert "account.py" in files
    assert "proofs/sent_messages.py" in files
    assert len(files) <= shape.MOST_HOPS
