"""`make_sample` lives in test/tiny_sample.py; every test sees it through test/conftest.py."""
