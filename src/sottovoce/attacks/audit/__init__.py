"""Audits: an attack on an observer's own view, played many times or once, and its success held against the guarantee.

many_runs   sv.audit: many runs of two neighbouring worlds
one_run     every agent a canary, one run
canaries    worlds that differ by exactly the sensitivity, in one record, or in all records of one person
choice      which attack is played: the matched filter, a transcript, or a discriminant fitted on runs of its own (`fitted`)
masked      the likelihood ratio of a board of masked messages
result      what an audit found
"""

from sottovoce.attacks.audit.canaries import canary_worlds, person_worlds, record_worlds
from sottovoce.attacks.audit.many_runs import audit, audit_seconds, check_audit_size
from sottovoce.attacks.audit.one_run import one_run_audit
from sottovoce.attacks.audit.one_run_result import OneRunAudit
from sottovoce.attacks.audit.result import Audit

__all__ = ["Audit", "OneRunAudit", "audit", "canary_worlds", "one_run_audit", "person_worlds", "record_worlds"]


def __dir__() -> list[str]:
    return [*__all__]
