"""The command line: arguments in, tables and JSON out. It puts the other packages together and decides nothing itself."""
