"""Where compiled programs are kept."""

import jax
import pytest

from sottovoce.simulation.rounds import cache

NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture
def settings():
    before = {name: getattr(jax.config, name) for name in NAMES}
    yield lambda: tuple(getattr(jax.config, name) for name in NAMES)
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_folder_that_is_named(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path / "named"))
    jax.config.update("jax_compilation_cache_dir", None)
    assert cache.enable_compilation_cache() == tmp_path / "named"
    assert settings() == (str(tmp_path / "named"), cache.SMALLEST_COMPILE_SECONDS)


def test_a_cache_that_the_user_has_set_up_is_left_alone(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path / "named"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 7.0)
    assert cache.enable_compilation_cache() == tmp_path / "own"
    assert settings() == (str(tmp_path / "own"), 7.0)


def test_without_a_name_programs_are_kept_with_the_users_other_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("SOTTOVOCE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "sottovoce" / "compiled"
