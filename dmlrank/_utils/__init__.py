"""Tools that every room may use: checks of arguments, writing of files, threads, warnings, text of numbers."""
