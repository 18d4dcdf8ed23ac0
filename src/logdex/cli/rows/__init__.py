"""How commands show the rows that they print, messages or records, whatever the format."""
