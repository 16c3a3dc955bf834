"""Rotary position embedding of queries and keys: x cos + rotate_half(x) sin."""

import torch


def pattern(cos, sin, query, key):
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    query_cos = query * cos
    query_low = query[..., :32]
    query_high = query[..., 32:]
    query_rotated = torch.cat((-query_high, query_low), dim=-1)
    query_out = query_cos + query_rotated * sin
    key_cos = key * cos
    key_low = key[..., :32]
    key_high = key[..., 32:]
    key_rotated = torch.cat((-key_high, key_low), dim=-1)
    return query_out, key_cos + key_rotated * sin


def replacement_args(cos, sin, query, key):
    return cos, sin, query, key
