"""The output of commands, where it differs between the formats."""
