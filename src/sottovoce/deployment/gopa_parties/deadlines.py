"""When a publication may leave an agent, and when others may call it dropped: one round, as one process has seen it.

A publication that is known while the masks in it are revealed is hidden by its agent's own noise alone. So an agent u must not publish when others have
begun to reveal. Nobody's clock is asked for the time of day. Two spans of time are measured, each by whom it binds, since something that this
process did or read itself:

    u publishes       at most P = 3L/8 after it began to sign that it is ready, in this process, by BOTH of its clocks
    v calls u dropped at least D = 5L/8 after it read who is active, in this process, by its monotonic clock

Why that is enough. Who is active is a list of those whose READY stands before it in the log. So u signed READY at a time r before the list existed,
and v read the list at a time f > r, whatever the board showed to whom and when. u publishes at r + P at the latest, v signs at f + D > r + D at the
earliest, and masks are revealed by who has signed or has waited as long itself:

    whatever leaves u leaves it more than D - P = L/4 before anybody honest signs that u dropped out.

It needs no clock that shows the right time and no honest board, relay or network; only that over one round one of u's two clocks, and the monotonic one of
v, measure how long something takes. A monotonic clock that stands still (a machine that sleeps) makes v wait longer, which is safe, and would make u
late, which is why u believes the clock that has gone further. Where its two clocks differ by more than L/8 since READY one of them was set or stood
still, and u stays silent in this round: a day forward, a day back, a machine that slept.

After a restart the moment of READY is gone, and so is what others have handed over since. An agent that was ready before says neither READY nor a
publication again in that round: written or not, it may be late. Nor does it sign that others dropped out: it may have forgotten that it has their
publications. What it had signed before, it carries out. One that was not ready is in nobody's list yet, has missed nothing, and goes on.

What time cannot give: that v has the publication when it signs. Within L/4 it has to reach v, by the board's log or from u itself; whoever can keep both from
v (a board that swallows it, together with whoever carries blobs between agents) has the masks revealed of an agent that published in time.
"""

from dataclasses import dataclass

from sottovoce.deployment.gopa_parties.clock import Clock, Reading
from sottovoce.deployment.gopa_parties.plan import Times


@dataclass(slots=True)
class Deadlines:
    """What this process knows of the times of one round.

    Attributes:
        clock: of this agent.
        times: of the plan.
        ready: what the clocks said before this process signed READY; None if it has not.
        active: what the monotonic clock said when this process read who is active; None before.
        late: why nothing that holds a publication leaves this process any more; it never ends within a round.
    """

    clock: Clock
    times: Times
    ready: Reading | None = None
    active: int | None = None
    late: str | None = None

    def publishing(self) -> int:
        """How long this agent has been ready, in milliseconds, by the clock that has gone further."""
        return 0 if self.ready is None else max(self.clock.read().since(self.ready))

    @property
    def sure(self) -> bool:
        """Whether everything that may still stand in the way of calling an agent dropped has come to this process by now."""
        return self.ready is not None and self.waited() >= self.times.drops

    def waited(self) -> int:
        """How long this process has known who is active, in milliseconds; -1 if it does not."""
        return -1 if self.active is None else self.clock.monotonic() - self.active

    def check(self) -> str | None:
        """Why nothing that holds a publication may leave now; None where it may."""
        self.late = self.late or self._why_late()
        return self.late

    def _why_late(self) -> str | None:
        if self.ready is None:
            return (
                "This process was started after the agent said that it is ready. How long ago that was nobody can measure any more, and others may be "
                "revealing its masks: it stays silent in this round."
            )
        passed = self.clock.read().since(self.ready)
        if abs(passed.wall - passed.monotonic) > self.times.apart:
            return (
                f"Since this agent was ready {passed.wall} ms have passed by the wall clock and {passed.monotonic} ms by the monotonic one. The clock was "
                "set or the machine slept, and others may be revealing its masks: it stays silent in this round."
            )
        if max(passed) > self.times.publish:
            return f"This agent was ready {max(passed)} ms ago, and publishes within {self.times.publish} ms: it stays silent in this round."
        return None

    def unheard(self) -> bool:
        """Whether half of the time is over that lies between the last publication and the first revealed mask."""
        if self.ready is None:
            return False
        passed = self.clock.monotonic() - self.ready.monotonic
        return passed > (self.times.publish + self.times.drops) // 2
