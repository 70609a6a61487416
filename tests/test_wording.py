"""What somebody wrote is repeated in messages without harm, and the name that was meant is found."""

from sottovoce.wording import brief, brief_value, suggest


def test_long_text_is_cut_and_control_characters_are_spelled_out():
    assert brief("short") == "short"
    assert brief("x" * 61) == "x" * 57 + "..."
    assert len(brief("x" * 60)) == 60
    assert brief("red \x1b[31m") == "red \\x1b[31m"
    assert brief_value(["a" * 200]) == "['" + "a" * 95 + "..."


def test_the_nearest_name_is_suggested_else_all_are_listed():
    assert suggest("rign", ["ring", "path"]) == "; did you mean 'ring'?"
    assert suggest("zzz", ["ring", "path"]) == "; known: ring, path"
