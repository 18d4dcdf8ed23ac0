"""Input and output: `Env` is the only place that touches the operating system."""
