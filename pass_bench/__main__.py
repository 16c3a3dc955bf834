"""`python3 -m pass_bench` is the `passbench` command."""

from pass_bench.cli import main

if __name__ == "__main__":
    main()
