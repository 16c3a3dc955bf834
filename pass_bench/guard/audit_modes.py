"""The kinds of audited calls, by name; see audit.py; no torch."""

from __future__ import annotations

from typing import Literal, get_args

AuditMode = Literal["moved", "refilled", "nudged"]
AUDIT_MODES: tuple[AuditMode, ...] = get_args(AuditMode)
