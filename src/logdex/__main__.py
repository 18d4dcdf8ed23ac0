"""`python -m logdex`: the same as the command `logdex`."""

from logdex.cli import main

if __name__ == "__main__":
    main()
