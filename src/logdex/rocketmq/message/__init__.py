"""One message: its bytes, properties, body, ids, and its form as JSON."""
