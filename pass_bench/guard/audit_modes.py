"""Where the content of audited calls is put, by name; see audit.py; no torch."""

from __future__ import annotations

from typing import Literal, get_args

AuditMode = Literal["moved", "refilled"]
AUDIT_MODES: tuple[AuditMode, ...] = get_args(AuditMode)
