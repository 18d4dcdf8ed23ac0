"""What commands print that looks different from format to format."""
