"""Settings for all tests."""

import os
import tempfile

# Compiled programs are shared by the tests of one run and kept out of the user's own cache.
os.environ.setdefault("SOTTOVOCE_CACHE", os.path.join(tempfile.gettempdir(), "sottovoce-test-cache"))
