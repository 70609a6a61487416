"""One thread for many small matrices: BLAS threads that wait for each other make them ten times slower."""

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def _controller() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # looks through all loaded libraries, once


def one_thread(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Run a function with one BLAS thread, and restore what was set before."""

    @wraps(function)
    def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
