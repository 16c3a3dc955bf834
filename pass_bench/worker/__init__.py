"""Process isolation: a supervisor without torch, a zygote, and per graph a trusted and an untrusted child."""
