"""`python -m fairlead` is the `fairlead` command."""

from fairlead.cli.main import main

main()
