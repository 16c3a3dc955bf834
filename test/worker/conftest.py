"""The tiny sample and `make_sample` live in test/tiny_sample.py; every test sees them through test/conftest.py."""
