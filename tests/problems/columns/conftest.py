import pytest

import sottovoce as sv

PATIENTS = """id,hôpital,age,sex,smoker,créatinine,date,readmitted
1,Genève,50,f,yes,1.2,2020-01-01,yes
2,Basel,61,m,no,,2020-01-02,no
2,Basel,62,m,no,2.5,2020-02-02,no
3,Basel,130,f,1,NA,2020-01-03,yes
"""


@pytest.fixture
def patients(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text(PATIENTS, encoding="utf-8")
    return path


@pytest.fixture
def declared():
    return {
        "target": "readmitted",
        "labels": ("no", "yes"),
        "owner": "hôpital",
        "person": "id",
        "records_per_person": 2,
        "bounds": {"age": (0, 120), "créatinine": (0, 10)},
        "booleans": ("smoker",),
        "categories": {"sex": ("f", "m")},
        "missing": {"créatinine": 1.0},
        "indicators": ("créatinine",),
        "drop": ("date",),
        "intercept": True,
    }


@pytest.fixture
def schema(declared):
    return sv.problems.Schema(**declared)
